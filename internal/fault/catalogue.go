package fault

import "slices"

// Action is what a rule does.
type Action uint8

// The actions: those on packets, those of the responder, those on requests, those on verbs.
const (
	Drop Action = iota
	Dup
	Delay
	Corrupt
	Truncate
	Reorder
	Rate
	Partition
	Gone
	Kill
	Stop
	Reject
	RNR
	NAK
	WC
	BindFail
	Fail
	QP
	FillCQ
	Event
	NumActions
)

// Layer is the part of the adapter in which rules of an action act.
type Layer uint8

// The layers.
const (
	Packets     Layer = iota // a port, on passing packets
	Connections              // the connection manager, on requests for connections that a listener is about to get
	Responder                // a responder of a reliable service, on requests that it is about to execute
	Requests                 // a queue pair, on work requests that it begins
	Verbs                    // the calls of a program
)

// String returns the heading of the layer in the catalogue.
func (l Layer) String() string { return layerNames[l] }

var layerNames = [...]string{"Packets", "Connections", "Responder", "Requests", "Verbs"}

// actionInfo is one row of the catalogue.
type actionInfo struct {
	name  string
	layer Layer
	// args are the action's own arguments; if bare is set, the first may be
	// given without its name. The action's selectors follow them.
	args     []Param
	bare     bool
	required []Param
	either   []Param // at most one of them
	text     string  // what it does, and the effects
	example  string  // a rule that acts on its own
}

// actions is the catalogue: the parser, the explanations, the list of the
// command and the documentation are all generated from it.
var actions = [NumActions]actionInfo{
	Drop: {
		name: "drop", layer: Packets, example: "drop nth=3 op=RDMA_WRITE_MIDDLE dir=out",
		text: "Loses the packet. An RC requester retransmits after a sequence NAK, or when its retry timer expires. " +
			"The connection manager repeats a REQ, REP, DREQ, LAP or SIDR_REQ that gets no answer, seconds later.",
	},
	Dup: {
		name: "dup", layer: Packets, example: "dup p=0.01",
		text: "Delivers the packet twice, the copy right after the original. A responder must not execute it twice.",
	},
	Delay: {
		name: "delay", layer: Packets, example: "delay 5ms op=ACK",
		args: []Param{Time}, bare: true, required: []Param{Time},
		text: "Delivers the packet later, by the given time; other packets may overtake it. At most 4096 packets wait in each direction: further ones " +
			"are lost and counted. Packets that still wait when the adapter is closed are lost.",
	},
	Corrupt: {
		name: "corrupt", layer: Packets, example: "corrupt byte=20 nth=2",
		args: []Param{Byte, Bit, Xor, Reseal}, either: []Param{Byte, Bit},
		text: "Changes the byte of byte= or the bit of bit=, otherwise a random bit (with xor=, a random byte). The receiver drops the packet because its ICRC is wrong " +
			"(drop_icrc_errors), or because its headers are malformed (drop_malformed). The ICRC does not cover the fifth byte, byte=4. " +
			"In a MAD, the header begins at byte=20, and the data (the CM message) at byte=44. With reseal the ICRC is computed again, so the receiver accepts the damaged packet.",
	},
	Truncate: {
		name: "truncate", layer: Packets, example: "truncate 40 op=SEND nth=1",
		args: []Param{Length, Reseal}, bare: true, required: []Param{Length},
		text: "Cuts the UDP payload to the given length. The receiver drops the packet as malformed, or because its ICRC is wrong. With reseal the " +
			"length, at least 16, is rounded down to a multiple of 4, and the last 4 bytes become the right ICRC: an RC responder " +
			"answers a FIRST or MIDDLE packet of a wrong length with NAK invalid request.",
	},
	Reorder: {
		name: "reorder", layer: Packets, example: "reorder p=0.01",
		args: []Param{By},
		text: "Holds the packet back until the next packet (or by= packets) of the same direction and queue pair has overtaken it, at most 10ms. " +
			"The rule holds one packet at a time.",
	},
	Rate: {
		name: "rate", layer: Packets, example: "rate 100Mbit/s",
		args: []Param{Speed, Queue}, bare: true, required: []Param{Speed},
		text: "Limits the rate of UDP payload, in bit/s, kbit/s, Mbit/s, Gbit/s or packets/s. Packets above the rate wait in a queue of queue= packets " +
			"(default 1000). Packets that find the queue full are lost and counted.",
	},
	Partition: {
		name: "partition", layer: Packets, example: "partition after=2s for=1s",
		text: "Loses all packets, in both directions unless dir= is given.",
	},
	Gone: {
		name: "gone", layer: Packets, example: "gone op=SEND nth=3 dir=out",
		text: "Makes the adapter fail before the packet is sent, or is received, as if it were removed: it raises DEVICE_FATAL, and from then on calls fail with EIO and it sends nothing.",
	},
	Kill: {
		name: "kill", layer: Packets, example: "kill op=REP nth=1 dir=out",
		text: "Kills the process (SIGKILL) before the packet is sent, or is received. Its peers get no message from it: they notice its end by retries that are not answered.",
	},
	Stop: {
		name: "stop", layer: Packets, example: "stop op=SEND nth=3 dir=out",
		text: "Stops the process (SIGSTOP) before the packet is sent, or is received, until it gets SIGCONT. softhca explore sends that after 5s. Not on Windows.",
	},
	Reject: {
		name: "reject", layer: Connections, example: "reject CONSUMER nth=2",
		args: []Param{Reason}, bare: true, required: []Param{Reason},
		text: "Rejects the request (REQ) with this reason. The program that listens gets no event; the one that connects gets REJECTED, with the number of the reason as the status.",
	},
	RNR: {
		name: "rnr", layer: Responder, example: "rnr count=3",
		text: "Answers a request that needs a receive with an RNR NAK, as if the receive queue were empty. " +
			"The requester waits for the queue pair's minimum RNR timer and retransmits, rnr_retry times; then it fails with RNR_RETRY_EXC_ERR. For RC, XRC and RD.",
	},
	NAK: {
		name: "nak", layer: Responder, example: "nak syndrome=REMOTE_ACCESS op=RDMA_WRITE nth=1",
		args: []Param{Syndrome}, bare: true, required: []Param{Syndrome},
		text: "Answers the request with a NAK and does not execute it. SEQUENCE acts as if the packet had been lost; RNR acts as the fault rnr, on any request. " +
			"After INVALID_REQUEST, REMOTE_ACCESS or REMOTE_OPERATIONAL the requester fails with REM_INV_REQ_ERR, REM_ACCESS_ERR or REM_OP_ERR, " +
			"and the responder's queue pair goes to ERR and reports QP_REQ_ERR, QP_ACCESS_ERR, or an error completion of its current receive. For RC, XRC and RD.",
	},
	WC: {
		name: "wc", layer: Requests, example: "wc status=RETRY_EXC_ERR op=SEND nth=3",
		args: []Param{Status}, bare: true, required: []Param{Status},
		text: "Makes the work request complete with this status, once the earlier ones are complete. The queue pair goes to ERR (after a local error of UC or UD: SQE), and later requests are flushed. " +
			"The request is not sent, so after RETRY_EXC_ERR or RNR_RETRY_EXC_ERR the peer does not know, as if all packets were lost. " +
			"For REM_ACCESS_ERR it is sent with a wrong key, for REM_INV_REQ_ERR with an address that is not aligned: the peer refuses it, and fails too. " +
			"The rule counts only requests that can have the status.",
	},
	BindFail: {
		name: "bindfail", layer: Requests, example: "bindfail op=BIND_MW nth=1",
		text: "Makes a BIND_MW or LOCAL_INV fail with MW_BIND_ERR, and have no effect: the memory window keeps its key and its memory. " +
			"The queue pair goes to ERR (UC: SQE), and later requests are flushed. No packet shows it.",
	},
	Fail: {
		name: "fail", layer: Verbs, example: "fail op=RegMR errno=ENOMEM nth=1",
		args: []Param{Errno}, required: []Param{Call},
		text: "Makes the call fail with this error number (default ENOMEM) and have no effect. In PostSend, PostRecv and PostSRQRecv each " +
			"work request counts as a call; the work requests before the failing one stay posted.",
	},
	QP: {
		name: "qp", layer: Verbs, example: "qp to=ERR nth=3",
		args: []Param{To}, required: []Param{To},
		text: "Moves the queue pair of the call to an error state before the call is carried out: to ERR, with QP_FATAL and both queues flushed, " +
			"or to SQE (UC and UD), with the send queue flushed.",
	},
	FillCQ: {
		name: "fillcq", layer: Verbs, example: "fillcq nth=2",
		text: "Overflows the send completion queue of the call's queue pair before the call is carried out. The adapter raises CQ_ERR and moves the " +
			"queue pairs of the completion queue to ERR. cqe_overflow counts the completions that no longer fit.",
	},
	Event: {
		name: "event", layer: Verbs, example: "event type=PORT_ERR after=10ms",
		args: []Param{Type}, bare: true, required: []Param{Type},
		text: "Raises an asynchronous event and changes nothing else. An event about a queue pair, a CQ or an SRQ names the one of the call.",
	},
}

// selectors are the selectors of each layer, in the order of the catalogue.
var selectors = [...][]Param{
	Packets:     {Nth, Every, P, Count, After, For, Op, Dir, QPN, PSN, Src, Dst, Path, Process},
	Connections: {Nth, Every, P, Count, After, For, Src, Process},
	Responder:   {Nth, Every, P, Count, After, For, Op, QPN, PSN, Src, Dst, Process},
	Requests:    {Nth, Every, P, Count, After, For, Request, QPN, Process},
	Verbs:       {Nth, Every, P, Count, After, For, Call, QPN, Process},
}

// String returns the name of the action in a rule.
func (a Action) String() string { return actions[a].name }

// Layer returns where the action acts.
func (a Action) Layer() Layer { return actions[a].layer }

// Text says what the action does and what follows from it.
func (a Action) Text() string { return actions[a].text }

// Example returns a rule of the action.
func (a Action) Example() string { return actions[a].example }

// Args returns the action's own arguments, Selectors those that choose when
// it acts. The caller must not change them.
func (a Action) Args() []Param { return actions[a].args }

// Selectors returns the selectors of the action.
func (a Action) Selectors() []Param { return selectors[actions[a].layer] }

// has reports whether a rule of the action may have the parameter.
func (a Action) has(p Param) bool {
	return slices.Contains(actions[a].args, p) || slices.Contains(a.Selectors(), p)
}

// Grammar explains the syntax of rules, and how they select, in a few lines.
const Grammar = `A rule is a fault with its arguments and selectors, all separated by spaces. Rules are separated by newlines
or semicolons; # begins a comment. A packet or call matches a rule if it matches all selectors. Among
matching packets or calls, nth=, every=, p= and count= select which are affected: "nth=100" is the 100th only;
"every=100" is every 100th; "nth=100 every=10" is the 100th and every 10th after it; p= is the probability for
each one; count= is the greatest number. Rules on packets act in order: once a rule loses a packet, later rules
do not see it. A rule on verbs without nth=, every=, p= and count= acts once: at the first call or, with after=
alone, at that time; fail acts on every call. Times count from the opening of the adapter. The same seed, rules
and traffic make the same choices.
`
