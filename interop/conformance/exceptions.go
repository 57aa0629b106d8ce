package conformance

import (
	"slices"
	"syscall"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/interop/ends"
	"github.com/softhca/softhca/roce"
)

const (
	badKey  = 0x00bad0bd // no adapter hands out this key
	farPart = 4096       // the size of a region whose end is reached
)

const (
	ok      = ib.WCSuccess
	flushed = ib.WCWRFlushErr
)

// denied is a request that is answered with a NAK that uses no receive.
func denied(nak roce.Syndrome) outcome {
	return outcome{asker{statuses: []ib.WCStatus{statusOf(nak), flushed}, state: ib.ERR}, answer{nak: nak, state: ib.ERR}}
}

// reported is the same for our responder, which reports it to its consumer.
func reported(nak roce.Syndrome) *answer {
	event := ib.EventQPReqErr
	if nak == roce.NAKRemoteAccess {
		event = ib.EventQPAccessErr
	}
	return &answer{nak: nak, state: ib.ERR, events: []ib.EventType{event}}
}

const tells = "rxe moves the queue pair to ERR without an event; we raise the event of the specification"

func request(op ib.WROpcode, n uint32, off uint64, key ib.RKey) func(*stand) ends.Send {
	return func(s *stand) ends.Send {
		wr := ends.Send{Opcode: op, RemoteAddr: s.far.Addr() + off, RKey: key, CompareAdd: 1}
		if key == 0 {
			wr.RKey = s.far.RKey()
		}
		if n > 0 {
			wr.SGList = []ends.SGE{{Memory: s.local, Length: n}}
		}
		if op == ib.WRSendWithInv {
			wr.InvRKey = badKey
		}
		return wr
	}
}

// packets is a request of some path MTUs.
func packets(op ib.WROpcode, mtus, more uint32, off uint64, key ib.RKey) func(*stand) ends.Send {
	return func(s *stand) ends.Send { return request(op, mtus*uint32(s.MTU.Bytes())+more, off, key)(s) }
}

func send(n uint32) func(*stand) ends.Send { return request(ib.WRSend, n, 0, 0) }

func small(pl *plan) { pl.farSize = farPart }

func rights(a ib.Access) func(*plan) {
	return func(pl *plan) { pl.farAccess = ib.AccessLocalWrite | a }
}

func closed(pl *plan) { pl.attr.Access = 0 }

// failsFast makes the requester give up soon: two repetitions, 16.8 ms apart at
// least.
func failsFast(pl *plan) { pl.attr.RetryCnt, pl.attr.Timeout = 2, 12 }

func peerIn(state ib.QPState) func(*plan) {
	return func(pl *plan) {
		failsFast(pl)
		pl.attr.ResponderState = state
	}
}

func rnr(retries uint8) func(*plan) {
	return func(pl *plan) { pl.attr.RNRRetry, pl.attr.MinRNRTimer = retries, 14 }
}

// silence is the outcome of a requester that gets no answer.
func silence(state ib.QPState, n int) outcome {
	return outcome{asker{statuses: refusal(ib.WCRetryExcErr, n), state: ib.ERR}, answer{state: state}}
}

// accessExceptions is the part of the table about remote access.
func accessExceptions() []exception {
	inv, acc := roce.NAKInvalidRequest, roce.NAKRemoteAccess
	return []exception{
		{name: "bad_rkey_write", about: "WRITE by a key that is none", rule: "E14", post: request(ib.WRRDMAWrite, 100, 0, badKey), linux: denied(acc), ours: reported(acc), why: tells},
		{name: "bad_rkey_write_multi", about: "WRITE of three packets by a key that is none", rule: "E14", post: packets(ib.WRRDMAWrite, 3, 0, 0, badKey), linux: denied(acc), ours: reported(acc), why: tells},
		{name: "bad_rkey_read", about: "READ by a key that is none", rule: "E14", post: request(ib.WRRDMARead, 100, 0, badKey), linux: denied(acc), ours: reported(acc), why: tells},
		{name: "bad_rkey_atomic", about: "FETCH&ADD by a key that is none", rule: "E14", post: request(ib.WRAtomicFetchAdd, 8, 0, badKey), linux: denied(acc), ours: reported(acc), why: tells},
		{name: "write_beyond_mr", about: "WRITE over the end of the region", rule: "E14", adapt: small, post: request(ib.WRRDMAWrite, 100, farPart-96, 0), linux: denied(acc), ours: reported(acc), why: tells},
		{name: "read_beyond_mr", about: "READ of three packets over the end of the region", rule: "E14", adapt: small, post: packets(ib.WRRDMARead, 3, 0, farPart-96, 0), linux: denied(acc), ours: reported(acc), why: tells},
		{name: "read_noperm", about: "READ of a region without REMOTE_READ", rule: "E14", adapt: rights(ib.AccessRemoteWrite), post: request(ib.WRRDMARead, 100, 0, 0), linux: denied(acc), ours: reported(acc), why: tells},
		{name: "write_noperm", about: "WRITE to a region without REMOTE_WRITE", rule: "E14", adapt: rights(ib.AccessRemoteRead), post: request(ib.WRRDMAWrite, 100, 0, 0), linux: denied(acc), ours: reported(acc), why: tells},
		{name: "atomic_noperm", about: "FETCH&ADD on a region without REMOTE_ATOMIC", rule: "E14", adapt: rights(ib.AccessRemoteRead | ib.AccessRemoteWrite), post: request(ib.WRAtomicFetchAdd, 8, 0, 0), linux: denied(acc), ours: reported(acc), why: tells},
		{name: "qp_noperm_write", about: "WRITE to a queue pair without REMOTE_WRITE", rule: "E10", adapt: closed, post: request(ib.WRRDMAWrite, 100, 0, 0), linux: denied(inv), ours: reported(inv), why: tells},
		{name: "qp_noperm_read", about: "READ from a queue pair without REMOTE_READ", rule: "E10", adapt: closed, post: request(ib.WRRDMARead, 100, 0, 0), linux: denied(inv), ours: reported(inv), why: tells},
		{
			name: "atomic_misaligned", about: "FETCH&ADD at an address that is 4 mod 8", rule: "E17", post: request(ib.WRAtomicFetchAdd, 8, 4, 0),
			linux:  outcome{asker{refused: syscall.EINVAL, statuses: []ib.WCStatus{ok}, state: ib.RTS}, answer{state: ib.RTS}},
			asking: &outcome{asker{statuses: []ib.WCStatus{ib.WCRemInvReqErr, flushed}, state: ib.ERR}, answer{nak: inv, state: ib.ERR}},
			ours:   reported(inv), why: "rxe refuses to post it; our adapter sends it, as hardware does, and the responder refuses it (E17). " + tells,
		},
		{
			name: "zero_length_bad_rkey", about: "WRITE of no bytes by a key that is none: no key is needed", capture: none13, rule: "E13", post: request(ib.WRRDMAWrite, 0, 0, badKey),
			linux: outcome{asker{statuses: []ib.WCStatus{ok, ok}, state: ib.RTS}, answer{state: ib.RTS}},
		},
	}
}

const none13 = "-"

// receiveExceptions is the part about missing, small and invalid receives.
func receiveExceptions() []exception {
	inv, op, acc := roce.NAKInvalidRequest, roce.NAKRemoteOperational, roce.NAKRemoteAccess
	unfit := outcome{
		asker{statuses: []ib.WCStatus{ib.WCRemOpErr, flushed}, state: ib.ERR},
		answer{nak: op, statuses: []ib.WCStatus{ib.WCLocQPOpErr, flushed}, state: ib.ERR},
	}
	unfitLater := unfit
	unfitLater.answer.at = 2
	exceeded := outcome{asker{statuses: []ib.WCStatus{ib.WCRNRRetryExcErr, flushed}, state: ib.ERR}, answer{rnr: true, state: ib.RTS}}
	late := outcome{asker{statuses: []ib.WCStatus{ok}, state: ib.RTS}, answer{rnr: true, statuses: []ib.WCStatus{ok}, state: ib.RTS}}
	const tooLong = "the specification wants NAK invalid request and LOC_LEN_ERR; rxe answers as if the receive were bad"
	return []exception{
		{
			name: "send_too_long", about: "SEND of 100 bytes into a receive of 64", rule: "E15", receives: []receive{{n: 64}, {n: 64}}, post: send(100), linux: unfit,
			ours: &answer{nak: inv, statuses: []ib.WCStatus{ib.WCLocLenErr, flushed}, state: ib.ERR}, why: tooLong,
		},
		{
			name: "send_too_long_multi", about: "SEND of three packets into a receive of two", rule: "E15", receives: []receive{{mtus: 2}, {mtus: 2}}, post: packets(ib.WRSend, 3, 0, 0, 0), linux: unfitLater,
			ours: &answer{nak: inv, at: 2, statuses: []ib.WCStatus{ib.WCLocLenErr, flushed}, state: ib.ERR}, why: tooLong,
		},
		{
			name: "recv_bad_lkey", about: "SEND into a receive whose own key is none", rule: "E16", receives: []receive{{n: 4096, badLKey: true}, {n: 4096}}, post: send(100), alone: true,
			linux: outcome{asker{statuses: []ib.WCStatus{ib.WCRemOpErr}, state: ib.ERR}, unfit.answer},
			ours:  &answer{nak: op, statuses: []ib.WCStatus{ib.WCLocProtErr, flushed}, state: ib.ERR}, why: "the receive's status is the specification's; rxe's LOC_QP_OP_ERR means a malformed request",
		},
		{name: "rnr_then_ok", about: "SEND of three packets; the receive comes after an RNR NAK", rule: "E12", adapt: rnr(7), receives: []receive{{mtus: 3}}, late: true, post: packets(ib.WRSend, 2, 10, 0, 0), alone: true, linux: late},
		{
			name: "rnr_write_imm", about: "WRITE with immediate; the receive comes after an RNR NAK", rule: "E12", adapt: rnr(7), receives: []receive{{}}, late: true,
			post: packets(ib.WRRDMAWriteWithImm, 2, 10, 0, 0), alone: true, linux: late,
		},
		{name: "rnr_exceeded", about: "SEND without a receive, rnr_retry 2", rule: "E12", adapt: rnr(2), post: send(100), linux: exceeded},
		{name: "rnr_zero_retry", about: "SEND without a receive, rnr_retry 0", rule: "E12", adapt: rnr(0), post: send(100), linux: exceeded},
		{
			name: "wr_inv_bad_rkey", about: "SEND with invalidate of a key that is none", rule: "E14", receives: []receive{{n: 4096}}, post: request(ib.WRSendWithInv, 33, 0, 0), alone: true,
			linux: outcome{asker{statuses: []ib.WCStatus{ok}, state: ib.RTS}, answer{statuses: []ib.WCStatus{ib.WCRemInvReqErr}, state: ib.ERR}},
			ours:  &answer{nak: acc, statuses: []ib.WCStatus{ib.WCLocAccessErr}, state: ib.ERR}, why: "rxe acknowledges it and then fails alone, so the requester believes it done; we refuse it with NAK remote access error",
		},
	}
}

// stateExceptions is the part about states, numbers and sizes that do not fit.
func stateExceptions() []exception {
	inv := roce.NAKInvalidRequest
	both := []ib.WCStatus{ok, ok}
	fine := outcome{asker{statuses: both, state: ib.RTS}, answer{statuses: []ib.WCStatus{ok}, state: ib.RTS}}
	rtr := fine
	rtr.answer.state = ib.RTR
	ahead := silence(ib.RTS, 2)
	ahead.answer.nak = roce.NAKSequence
	short := denied(inv)
	refused := short
	refused.answer.statuses = []ib.WCStatus{ib.WCRemInvReqErr}
	return []exception{
		{name: "peer_reset", about: "SEND to a queue pair in RESET", rule: "E7", adapt: peerIn(ib.RESET), post: send(100), linux: silence(ib.RESET, 2)},
		{name: "peer_init", about: "SEND to a queue pair in INIT", rule: "E7", adapt: peerIn(ib.INIT), receives: []receive{{n: 4096}}, post: send(100), linux: silence(ib.INIT, 2)},
		{
			name: "peer_rtr", about: "SEND to a queue pair in RTR", rule: "Q7", adapt: peerIn(ib.RTR), receives: []receive{{n: 4096}}, post: send(100), linux: rtr,
			ours: &answer{statuses: []ib.WCStatus{ok}, state: ib.RTR, events: []ib.EventType{ib.EventCommEst}}, why: "rxe does not raise COMM_EST for the first message in RTR",
		},
		{
			name: "peer_error", about: "SEND to a queue pair in ERR", rule: "E7", adapt: peerIn(ib.ERR), receives: []receive{{n: 4096}}, post: send(100), linux: silence(ib.ERR, 2),
			newer: &outcome{silence(ib.ERR, 2).asker, answer{statuses: []ib.WCStatus{flushed}, state: ib.ERR}},
			ours:  &answer{statuses: []ib.WCStatus{flushed}, state: ib.ERR}, why: "rxe before 6.12 leaves a receive that is posted in ERR alone; we flush it (Q19)",
		},
		{
			name: "peer_destroyed", about: "WRITE to a queue pair that was destroyed: no answer", rule: "E1", adapt: failsFast, destroyed: true, post: request(ib.WRRDMAWrite, 100, 0, 0), alone: true,
			linux: silence(ib.RESET, 1),
		},
		{name: "psn_ahead", about: "the requester begins 5 PSNs further than is expected", rule: "E8", adapt: skip(5), receives: []receive{{n: 4096}}, post: send(100), linux: ahead},
		{
			name: "psn_behind_read", about: "READ 3 PSNs behind what is expected, never executed before", rule: "E9", adapt: skip(1<<24 - 3), post: request(ib.WRRDMARead, 100, 0, 0),
			linux: silence(ib.RTS, 2),
		},
		{
			name: "psn_behind", about: "SEND 3 PSNs behind what is expected, never executed before", rule: "E9", adapt: skip(1<<24 - 3), receives: []receive{{n: 4096}}, post: send(100),
			linux:  silence(ib.RTS, 2),
			taking: &outcome{asker{statuses: both, state: ib.RTS}, answer{state: ib.RTS}},
			why:    "a duplicate is acknowledged with the PSN of the last request that was executed, which this requester never sent: rxe takes that for an ACK of everything, we ignore it",
		},
		{
			name: "mtu_mismatch", about: "SEND of two packets to a responder whose path MTU is 256", rule: "E15", adapt: mismatch, receives: []receive{{mtus: 2}}, post: packets(ib.WRSend, 2, 0, 0, 0), linux: fine,
			newer: &refused, ours: &answer{nak: inv, statuses: []ib.WCStatus{ib.WCLocLenErr}, state: ib.ERR},
			why: "rxe before 6.12 does not compare the lengths of a SEND's packets with the path MTU; later it does, with another status of the receive than the specification's",
		},
		{
			name: "rd_depth_exceeded", about: "8 READs at once to a responder that keeps one", rule: "E11", adapt: func(pl *plan) { pl.attr.MaxRDAtomic, pl.attr.MaxDestRDAtomic = 16, 1 }, alone: true,
			post: func(s *stand) ends.Send {
				wr := packets(ib.WRRDMARead, 4, 0, 0, 0)(s)
				wr.Count = 8
				return wr
			},
			linux: outcome{asker{statuses: make([]ib.WCStatus, 8), state: ib.RTS}, answer{state: ib.RTS}},
		},
		{
			name: "mtu_mismatch_write", about: "WRITE of two packets to a responder whose path MTU is 256", rule: "E15", adapt: mismatch, post: packets(ib.WRRDMAWrite, 2, 0, 0, 0), linux: short, ours: reported(inv), why: tells,
		},
	}
}

// unreliableExceptions is the part about UC and UD, whose responders send no
// NAK.
func unreliableExceptions() []exception {
	both := []ib.WCStatus{ok, ok}
	fine := outcome{asker{statuses: both, state: ib.RTS}, answer{statuses: both[:1], state: ib.RTS}}
	return []exception{
		{
			name: "uc_bad_rkey", about: "UC WRITE by a key that is none: it is dropped", rule: "E14", typ: ib.UC, post: request(ib.WRRDMAWrite, 100, 0, badKey),
			linux: outcome{asker{statuses: both, state: ib.RTS}, answer{state: ib.RTS}},
		},
		{name: "uc_no_recv", more: true, about: "UC SEND without a receive: it is dropped", rule: "E12", typ: ib.UC, post: send(100), linux: outcome{asker{statuses: both, state: ib.RTS}, answer{state: ib.RTS}}},
		{
			name: "ud_bad_qkey", more: true, about: "UD SEND with a wrong Q_Key: it is dropped", rule: "E7", typ: ib.UD, receives: []receive{{n: 4096}}, alone: true,
			refusal: "drop_qkey_violations",
			post: func(s *stand) ends.Send {
				return ends.Send{Opcode: ib.WRSend, AH: s.ud.AH, RemoteQPN: s.ud.RemoteQPN, RemoteQKey: ends.QKey + 1}
			},
			linux: outcome{asker{statuses: both[:1], state: ib.RTS}, answer{state: ib.RTS}},
		},
		{
			name: "ud_too_long", more: true, about: "UD SEND longer than the receive", rule: "E15", typ: ib.UD, receives: []receive{{n: 64}}, alone: true, post: datagram(100),
			linux: outcome{asker{statuses: both[:1], state: ib.RTS}, answer{statuses: []ib.WCStatus{ib.WCLocQPOpErr}, state: ib.ERR}},
			newer: &outcome{asker{statuses: both[:1], state: ib.RTS}, answer{state: ib.RTS}},
			ours:  &answer{state: ib.RTS}, why: "rxe before 6.12 goes to ERR, so any stranger can end the queue pair; we drop the message and keep the receive, as E15 has it for datagrams",
		},
		{name: "uc_psn_gap", about: "UC SEND 5 PSNs further than is expected: it is taken", rule: "E8", typ: ib.UC, adapt: skip(5), receives: []receive{{n: 4096}}, post: send(100), linux: fine},
	}
}

func datagram(n uint32) func(*stand) ends.Send {
	return func(s *stand) ends.Send {
		wr := ends.Send{Opcode: ib.WRSend, AH: s.ud.AH, RemoteQPN: s.ud.RemoteQPN, RemoteQKey: ends.QKey}
		wr.SGList = []ends.SGE{{Memory: s.local, Length: n}}
		return wr
	}
}

func skip(n uint32) func(*plan) {
	return func(pl *plan) {
		failsFast(pl)
		pl.attr.SkippedPSNs = n
	}
}

func mismatch(pl *plan) { pl.attr.ResponderMTU = ib.MTU256 }

// exceptions is the whole table.
func exceptions() []exception {
	all := slices.Concat(accessExceptions(), receiveExceptions(), stateExceptions(), unreliableExceptions(), extensionExceptions())
	for i := range all {
		if all[i].typ == 0 {
			all[i].typ = ib.RC
		}
		switch all[i].capture {
		case "":
			all[i].capture = "errs_" + all[i].name
		case none13:
			all[i].capture = ""
		}
	}
	return all
}

// ExceptionNames returns the names of the exceptions, in the order of the table.
func ExceptionNames() (names []string) {
	for _, x := range exceptions() {
		names = append(names, x.name)
	}
	return names
}

// Extension returns the extension that a case needs: AtomicWrite, Flush or "".
func Extension(name string) string {
	for _, x := range exceptions() {
		if x.name == name {
			return x.needs
		}
	}
	return ""
}

// Refusal returns our adapter's counter for the request of a case that it drops
// for its headers; "" if it does not.
func Refusal(name string) string {
	for _, x := range exceptions() {
		if x.name == name {
			return x.refusal
		}
	}
	return ""
}
