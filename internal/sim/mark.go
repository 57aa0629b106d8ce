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
	"E14 REM_ACCESS_ERR", "E14 QP_ACCESS_ERR", "M1 window died", "E15 LOC_LEN_ERR", "E16 REM_OP_ERR", "E18 CQ_ERR", "E22 implied NAK", "E23 ghost ACK", "E24 BAD_RESP_ERR",
	"L1 probe", "L1 repaired", "L1 repair went no further", "L2 kept",
	"V15 PATH_MIG", "V15 PATH_MIG_ERR", "V15 REARM", "claim refuted", "claim believed", "answer in doubt", "request in doubt", "other drop",
	"near met", "near packet", "near run lent", "near ring full", "near packet lost", "near reordered", "near garbage", "near ended",
}

// ownMarks are further situations, in addition to markNames, of profiles with ownFeatures.
var ownMarks = map[string][]string{
	extended:         {"M4 wrong SRQ", "M4 forged request", "M4 SRQ of another PD", "M4 other SRQ than before", "M4 SRQ destroyed", "M4 SRQ destroyed in a message", "M4 SRQ destroyed under its CQ"},
	completionEvents: {"M7 event at once", "M7 event by count", "M7 event by period", "M7 waiting when armed", "M7 changed while pending"},
	nastyAdapters:    {"K2 lost response", "K2 late", "K2 other order", "K2 entered before an event"},
	windowsOfType2:   {"M2 window bound", "M2 window died", "M2 window died in use", "M2 LOCAL_INV", "M2 SEND with invalidate", "M2 wrong bind", "M2 bound window bound again", "M2 MW_BIND_ERR", "M2 dead key", "M2 key of another queue pair", "M2 beyond the window"},
}

// MarkNames returns the situations that are counted in runs of a profile.
func MarkNames(profile string) []string {
	if profile == storms {
		return storm.MarkNames()
	}
	if profile == datagrams {
		return channels.MarkNames()
	}
	return slices.Concat(markNames[:], ownMarks[profile])
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

// dropMarks are the situations that dropped packets belong to, by the cause.
var dropMarks = map[string]string{
	"state": "Q20 drop by state", "duplicate": "E9 dropped duplicate", "sequence": "E8 dropped after a gap",
	"doubt": "request in doubt", "ghost_ack": "E23 ghost ACK",
}

// eventMarks are the situations that events show.
var eventMarks = map[ib.EventType]string{
	ib.EventCQErr: "E18 CQ_ERR", ib.EventCommEst: "Q9 COMM_EST", ib.EventSQDrained: "Q12 drained",
	ib.EventQPReqErr: "E10 QP_REQ_ERR", ib.EventQPAccessErr: "E14 QP_ACCESS_ERR",
	ib.EventPathMig: "V15 PATH_MIG", ib.EventPathMigErr: "V15 PATH_MIG_ERR", ib.EventQPLastWQEReached: "Q19 LAST_WQE_REACHED",
}

// statusMarks are the situations that statuses show.
var statusMarks = map[ib.WCStatus]string{
	ib.WCWRFlushErr: "Q19 flush", ib.WCLocQPOpErr: "E2 LOC_QP_OP_ERR", ib.WCLocProtErr: "E3 LOC_PROT_ERR",
	ib.WCRetryExcErr: "E8 RETRY_EXC_ERR", ib.WCRemInvReqErr: "E10 REM_INV_REQ_ERR", ib.WCRNRRetryExcErr: "E12 RNR_RETRY_EXC_ERR",
	ib.WCMWBindErr: "M2 MW_BIND_ERR", ib.WCRemAccessErr: "E14 REM_ACCESS_ERR", ib.WCLocLenErr: "E15 LOC_LEN_ERR", ib.WCRemOpErr: "E16 REM_OP_ERR", ib.WCBadRespErr: "E24 BAD_RESP_ERR",
}

// moveMark is the situation that a state change shows.
func moveMark(r *trace.Record) string {
	switch {
	case r.To == ib.RESET:
		return "Q5 reset"
	case r.To == ib.SQE:
		return "Q14 SQE"
	case r.From == ib.SQE && r.To == ib.RTS:
		return "Q16 back from SQE"
	case r.To == ib.ERR && r.Cause != byModify:
		return "Q18 ERR by itself"
	default:
		return "Q3 modify"
	}
}
