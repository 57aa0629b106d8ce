package counters

// Set holds the counters of an adapter. The first group has the names that
// Linux's Soft-RoCE shows in hw_counters, the second those of common hardware
// or our own. They never decrease. Set contains only words, so that processes
// can share it.
type Set struct {
	SentPkts           uint64
	RcvdPkts           uint64
	DuplicateRequest   uint64 // RC requests behind the expected PSN
	OutOfSeqRequest    uint64 // RC requests ahead of it, the first of each gap
	RcvdRNRErr         uint64 // RNR NAKs received
	SendRNRErr         uint64 // RNR NAKs sent
	RcvdSeqErr         uint64 // sequence NAKs received
	AckDeferred        uint64 // acknowledgements merged into a later one
	RetryExceededErr   uint64 // requests failed with RETRY_EXC_ERR
	RetryRNRExceeded   uint64 // requests failed with RNR_RETRY_EXC_ERR
	CompleterRetryErr  uint64 // retries of any cause
	SendErr            uint64 // packets that the port refused
	LinkDowned         uint64
	RDMASends          uint64 // SEND messages completed
	RDMARecvs          uint64 // receive completions
	LocalAckTimeoutErr uint64 // retry timer expiries
	ImpliedNAKSeqErr   uint64 // responses found missing by a later one
	RetransPkts        uint64 // request packets sent again
	RxWriteRequests    uint64
	RxReadRequests     uint64
	RxAtomicRequests   uint64
	OutOfBuffer        uint64 // UC and UD messages dropped for lack of a receive
	ReqCQEError        uint64 // send completions with an error other than flush
	RespCQEError       uint64 // receive completions with an error other than flush
	CQEFlush           uint64 // flush completions
	CQEOverflow        uint64 // completions lost to a full CQ (E18)
	EventsLost         uint64 // asynchronous events lost to a full queue
	StateChanges       uint64 // QP state transitions (Q25)
	Probes             uint64 // packets sent again to learn whether they had arrived
	EarlyKept          uint64 // requests and responses buffered beyond a gap
	EarlyRefused       uint64 // not buffered: a bound was reached
	Resyncs            uint64 // RD: messages abandoned half-way, followed by a RESYNC
	RDSuspended        uint64 // RD: messages suspended after an RNR NAK
	Challenges         uint64 // claims about a peer that were challenged
	ChallengesRefuted  uint64 // of these, refuted by the peer's answers
	Drops              [NumDrops]uint64
}

// Drop is the reason why an arriving packet had no effect. It is only counted,
// never returned as an error or sent to the peer.
type Drop uint8

// The reasons.
const (
	DropMalformed Drop = iota // not a RoCEv2 packet
	DropICRC
	DropAddress // not to or from the addresses of the QP's path
	DropNoQP    // no such QP
	DropState   // the QP's state does not accept such packets
	DropService // opcode of another transport service
	DropPKey
	DropQKey
	DropDuplicate // duplicate that cannot be answered, or an old response
	DropSequence  // ahead of the expected PSN after the NAK was sent
	DropGhost     // response to a PSN that was never sent
	DropResponse  // response to no outstanding request
	DropNoWQE     // UC, UD: no receive work request
	DropLength    // UC, UD: does not fit
	DropAccess    // UC: rkey or rights
	DropMessage   // UC: rest of a message that was dropped
	DropOpcode    // unsupported operation
	DropNoEEC     // no such EE context
	DropDoubt     // may be forged; the peer is asked to repeat it
	DropMSN       // answer whose message sequence number does not fit
	DropMigration // MigReq at a wrong PSN or over a wrong path
	DropForged    // from the network, in the name of a process whose packets take shared memory

	DropMADVersion // QP1: not a management datagram of a known version
	DropMADAgent   // QP1: no agent takes it, and it needs no answer
	DropMADAnswer  // QP1: it needs an answer, and the queue of answers is full
	DropMADQueue   // QP1: too many datagrams wait for the control plane
	NumDrops
)

var dropNames = [NumDrops]string{
	"malformed", "icrc_errors", "address", "no_qp", "state", "service", "pkey_violations",
	"qkey_violations", "duplicate", "sequence", "ghost_ack", "response", "no_wqe", "length",
	"access", "message", "opcode", "no_eec", "doubt", "msn", "migration", "forged", "mad_version", "mad_agent", "mad_answer", "mad_queue",
}

// String returns the name of the reason as it appears among the counters.
func (d Drop) String() string {
	if d < NumDrops {
		return dropNames[d]
	}
	return "drop"
}

// Dropped returns how many packets were dropped for one of the reasons.
func (c *Set) Dropped(reasons ...Drop) (n uint64) {
	for _, d := range reasons {
		n += c.Drops[d]
	}
	return n
}

// Each calls f with the name and the value of every counter, in a fixed order.
func (c *Set) Each(f func(name string, v uint64)) {
	for _, n := range [...]struct {
		name string
		v    uint64
	}{
		{"sent_pkts", c.SentPkts}, {"rcvd_pkts", c.RcvdPkts},
		{"duplicate_request", c.DuplicateRequest}, {"out_of_seq_request", c.OutOfSeqRequest},
		{"rcvd_rnr_err", c.RcvdRNRErr}, {"send_rnr_err", c.SendRNRErr},
		{"rcvd_seq_err", c.RcvdSeqErr}, {"ack_deferred", c.AckDeferred},
		{"retry_exceeded_err", c.RetryExceededErr}, {"retry_rnr_exceeded_err", c.RetryRNRExceeded},
		{"completer_retry_err", c.CompleterRetryErr}, {"send_err", c.SendErr},
		{"link_downed", c.LinkDowned}, {"rdma_sends", c.RDMASends}, {"rdma_recvs", c.RDMARecvs},
		{"local_ack_timeout_err", c.LocalAckTimeoutErr}, {"implied_nak_seq_err", c.ImpliedNAKSeqErr},
		{"retrans_pkts", c.RetransPkts}, {"rx_write_requests", c.RxWriteRequests},
		{"rx_read_requests", c.RxReadRequests}, {"rx_atomic_requests", c.RxAtomicRequests},
		{"out_of_buffer", c.OutOfBuffer}, {"req_cqe_error", c.ReqCQEError},
		{"resp_cqe_error", c.RespCQEError}, {"cqe_flush", c.CQEFlush},
		{"cqe_overflow", c.CQEOverflow}, {"events_lost", c.EventsLost},
		{"state_changes", c.StateChanges},
		{"probes", c.Probes}, {"early_kept", c.EarlyKept}, {"early_refused", c.EarlyRefused},
		{"resyncs", c.Resyncs}, {"rd_suspended", c.RDSuspended},
		{"challenges", c.Challenges}, {"challenges_refuted", c.ChallengesRefuted},
	} {
		f(n.name, n.v)
	}
	for d := Drop(0); d < NumDrops; d++ {
		f("drop_"+dropNames[d], c.Drops[d])
	}
}
