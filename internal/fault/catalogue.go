package fault

import "slices"

// Action is what a rule does.
type Action uint8

// The actions: those on packets, those of the responder, those on verbs.
const (
	Drop Action = iota
	Dup
	Delay
	Corrupt
	Truncate
	Reorder
	Rate
	Partition
	RNR
	NAK
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
	Packets   Layer = iota // a port, on passing packets
	Responder              // an RC responder, on requests that it is about to execute
	Verbs                  // the calls of a program
)

// String returns the heading of the layer in the catalogue.
func (l Layer) String() string { return layerNames[l] }

var layerNames = [...]string{"Packets", "Responder", "Verbs"}

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
		text: "Loses the packet. An RC requester learns of it by a sequence NAK or by its retry timer, and sends again. " +
			"So does the connection manager, seconds later, when nobody answers its REQ, REP, DREQ, LAP or SIDR_REQ.",
	},
	Dup: {
		name: "dup", layer: Packets, example: "dup p=0.01",
		text: "Delivers the packet twice, one right after the other. A responder must not execute it twice.",
	},
	Delay: {
		name: "delay", layer: Packets, example: "delay 5ms op=ACK",
		args: []Param{Time}, bare: true, required: []Param{Time},
		text: "Delivers the packet so much later; others may overtake it. At most 4096 packets wait in each direction: one more is lost and counted. " +
			"What waits when the adapter is closed is lost.",
	},
	Corrupt: {
		name: "corrupt", layer: Packets, example: "corrupt byte=20 nth=2",
		args: []Param{Byte, Bit, Xor, Reseal}, either: []Param{Byte, Bit},
		text: "Changes one byte, or one bit, without byte= and bit= a random one. The receiver drops the packet, as the ICRC is wrong " +
			"(drop_icrc_errors; drop_malformed if the headers make no sense any more). The fifth byte, byte=4, is not covered by the ICRC. " +
			"The header of a MAD begins at byte=20, its data, which a CM message is, at byte=44. With reseal the ICRC is made right again: the receiver takes wrong content for good.",
	},
	Truncate: {
		name: "truncate", layer: Packets, example: "truncate 40 op=SEND nth=1",
		args: []Param{Length, Reseal}, bare: true, required: []Param{Length},
		text: "Leaves the first bytes of the UDP payload only. The receiver drops the packet as malformed or for its ICRC. With reseal the " +
			"length is rounded down to a multiple of 4, of at least 16, and the last 4 bytes become the right ICRC: an RC responder " +
			"answers a FIRST or MIDDLE packet of a wrong length with NAK invalid request.",
	},
	Reorder: {
		name: "reorder", layer: Packets, example: "reorder p=0.01",
		args: []Param{By},
		text: "Holds the packet back until the next one on the same way to the same queue pair has overtaken it, or by= of them, or for 10ms. " +
			"While one packet is held the rule takes no other.",
	},
	Rate: {
		name: "rate", layer: Packets, example: "rate 100Mbit/s",
		args: []Param{Speed, Queue}, bare: true, required: []Param{Speed},
		text: "Lets UDP payload through at that rate: bit/s, kbit/s, Mbit/s, Gbit/s or packets/s. What comes faster waits in a queue of queue= packets " +
			"(default 1000); what finds it full is lost and counted.",
	},
	Partition: {
		name: "partition", layer: Packets, example: "partition after=2s for=1s",
		text: "Loses everything, in both directions unless dir= says otherwise.",
	},
	RNR: {
		name: "rnr", layer: Responder, example: "rnr count=3",
		text: "Holds back the receives: the responder answers a request that needs one with an RNR NAK, as if the receive queue were empty. " +
			"The requester waits for the queue pair's min RNR timer and sends again, rnr_retry times; then it fails with RNR_RETRY_EXC_ERR. RC only.",
	},
	NAK: {
		name: "nak", layer: Responder, example: "nak syndrome=REMOTE_ACCESS op=RDMA_WRITE nth=1",
		args: []Param{Syndrome}, bare: true, required: []Param{Syndrome},
		text: "Answers the request with a NAK and does not execute it. SEQUENCE: as if the packet had been lost; RNR: as rnr, for any request. " +
			"INVALID_REQUEST, REMOTE_ACCESS, REMOTE_OPERATIONAL: the requester fails with REM_INV_REQ_ERR, REM_ACCESS_ERR or REM_OP_ERR; " +
			"here the queue pair goes to ERR with QP_REQ_ERR or QP_ACCESS_ERR, or the error completion of the receive in hand. RC only.",
	},
	Fail: {
		name: "fail", layer: Verbs, example: "fail op=RegMR errno=ENOMEM nth=1",
		args: []Param{Errno}, required: []Param{Call},
		text: "Makes the call fail with that error number (default ENOMEM) and have no effect. Of PostSend, PostRecv and PostSRQRecv each " +
			"work request counts; those before the one that fails stay posted.",
	},
	QP: {
		name: "qp", layer: Verbs, example: "qp to=ERR nth=3",
		args: []Param{To}, required: []Param{To},
		text: "Moves the queue pair of the call, before the call is carried out, as it moves by itself: to ERR with QP_FATAL and both queues flushed, " +
			"or to SQE (UC and UD) with the send queue flushed.",
	},
	FillCQ: {
		name: "fillcq", layer: Verbs, example: "fillcq nth=2",
		text: "Overflows the send completion queue of the call's queue pair, before the call is carried out: CQ_ERR, and its queue pairs go to ERR. " +
			"Completions that no longer fit are counted in cqe_overflow.",
	},
	Event: {
		name: "event", layer: Verbs, example: "event type=PORT_ERR after=10ms",
		args: []Param{Type}, bare: true, required: []Param{Type},
		text: "Raises an asynchronous event and changes nothing else. Events about a queue pair, a CQ or an SRQ are about those of the call.",
	},
}

// selectors are the selectors of each layer, in the order of the catalogue.
var selectors = [...][]Param{
	Packets:   {Nth, Every, P, Count, After, For, Op, Dir, QPN, PSN, Src, Dst, Path},
	Responder: {Nth, Every, P, Count, After, For, Op, QPN, PSN, Src, Dst},
	Verbs:     {Nth, Every, P, Count, After, For, Call, QPN},
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
or semicolons; # begins a comment. All selectors of a rule must fit. Of what fits, nth=, every=, p= and count=
choose: "nth=100" is the 100th, once; "every=100" is every 100th; "nth=100 every=10" the 100th and every 10th
after it; p= draws each time, from the seed; count= ends the rule after so many. Rules on packets are applied
in order: a packet that one loses is not seen by those that follow. Rules on verbs without nth=, every=, p= and
count= act once, at the first call, or by themselves after= so long; fail acts every time. Times count from the
opening of the adapter. The same seed, rules and traffic make the same choices.
`
