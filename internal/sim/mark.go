package sim

import (
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/sim/channels"
	"github.com/softhca/softhca/internal/sim/storm"
	"github.com/softhca/softhca/internal/trace"
)

// Marks counts how often each situation came up, in the order of MarkNames. A
// clean run proves nothing about situations that did not occur.
type Marks []uint64

// markNames are the situations, each with the requirement it is about.
var markNames = [...]string{
	"Q3 modify", "Q5 reset", "Q12 drained", "Q14 SQE", "Q16 back from SQE", "Q18 ERR by itself", "Q20 drop by state",
	"Q9 COMM_EST", "Q19 flush", "Q19 LAST_WQE_REACHED",
	"E2 LOC_QP_OP_ERR", "E3 LOC_PROT_ERR", "E5 timeout", "E8 sequence NAK", "E8 RETRY_EXC_ERR", "E8 dropped after a gap",
	"E9 dropped duplicate", "E10 REM_INV_REQ_ERR", "E10 QP_REQ_ERR", "E12 requester waits", "E12 RNR_RETRY_EXC_ERR",
	"E14 REM_ACCESS_ERR", "E14 QP_ACCESS_ERR", "E15 LOC_LEN_ERR", "E16 REM_OP_ERR", "E18 CQ_ERR", "E22 implied NAK", "E23 ghost ACK", "E24 BAD_RESP_ERR",
	"L1 probe", "L1 repaired", "L1 repair went no further", "L2 kept",
	"V15 PATH_MIG", "V15 PATH_MIG_ERR", "V15 REARM", "claim refuted", "claim believed", "answer in doubt", "request in doubt", "other drop",
}

const numMarks = len(markNames)

// MarkNames returns the situations that are counted in runs of a profile.
func MarkNames(profile string) []string {
	if profile == storms {
		return storm.MarkNames()
	}
	if profile == datagrams {
		return channels.MarkNames()
	}
	return markNames[:]
}

// CellNames returns the cells of the connection manager's machines that runs of
// a profile can reach; none except for connection storms.
func CellNames(profile string) []string {
	if profile == storms {
		return storm.CellNames()
	}
	return nil
}

// add adds the counts of a run.
func (m Marks) add(run Marks) {
	for i, n := range run {
		m[i] += n
	}
}

// mark counts a situation.
func (w *world) mark(name string) {
	i := slices.Index(markNames[:], name)
	if i < 0 {
		panic("sim: no mark " + name)
	}
	w.marks[i]++
}

// markOfDrop returns the situation that a dropped packet belongs to.
func markOfDrop(cause string) string {
	switch cause {
	case "state":
		return "Q20 drop by state"
	case "duplicate":
		return "E9 dropped duplicate"
	case "sequence":
		return "E8 dropped after a gap"
	case "doubt":
		return "request in doubt"
	case "ghost_ack":
		return "E23 ghost ACK"
	default:
		return "other drop"
	}
}

// markEvent counts the situations that an event shows.
func (w *world) markEvent(t ib.EventType) {
	switch t {
	case ib.EventCQErr:
		w.mark("E18 CQ_ERR")
	case ib.EventCommEst:
		w.mark("Q9 COMM_EST")
	case ib.EventSQDrained:
		w.mark("Q12 drained")
	case ib.EventQPReqErr:
		w.mark("E10 QP_REQ_ERR")
	case ib.EventQPAccessErr:
		w.mark("E14 QP_ACCESS_ERR")
	case ib.EventPathMig:
		w.mark("V15 PATH_MIG")
	case ib.EventPathMigErr:
		w.mark("V15 PATH_MIG_ERR")
	case ib.EventQPLastWQEReached:
		w.mark("Q19 LAST_WQE_REACHED")
	}
}

// markStatus counts the situations that a status shows.
func (w *world) markStatus(s ib.WCStatus) {
	switch s {
	case ib.WCWRFlushErr:
		w.mark("Q19 flush")
	case ib.WCLocQPOpErr:
		w.mark("E2 LOC_QP_OP_ERR")
	case ib.WCLocProtErr:
		w.mark("E3 LOC_PROT_ERR")
	case ib.WCRetryExcErr:
		w.mark("E8 RETRY_EXC_ERR")
	case ib.WCRemInvReqErr:
		w.mark("E10 REM_INV_REQ_ERR")
	case ib.WCRNRRetryExcErr:
		w.mark("E12 RNR_RETRY_EXC_ERR")
	case ib.WCRemAccessErr:
		w.mark("E14 REM_ACCESS_ERR")
	case ib.WCLocLenErr:
		w.mark("E15 LOC_LEN_ERR")
	case ib.WCRemOpErr:
		w.mark("E16 REM_OP_ERR")
	case ib.WCBadRespErr:
		w.mark("E24 BAD_RESP_ERR")
	}
}

// markMove counts the situations that a state change shows.
func (w *world) markMove(r *trace.Record) {
	switch {
	case r.To == ib.RESET:
		w.mark("Q5 reset")
	case r.To == ib.SQE:
		w.mark("Q14 SQE")
	case r.From == ib.SQE && r.To == ib.RTS:
		w.mark("Q16 back from SQE")
	case r.To == ib.ERR && r.Cause != byModify:
		w.mark("Q18 ERR by itself")
	default:
		w.mark("Q3 modify")
	}
}
