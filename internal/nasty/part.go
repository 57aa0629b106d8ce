package nasty

// Part is one behaviour, which can be left out.
type Part uint8

// The behaviours.
const (
	Late Part = iota
	Order
	Events
	Placement
	Losses
	RNR
	Delays
	CM
	Numbers
	Sizes
	NumParts
)

// partInfo is one row of the table of behaviours.
type partInfo struct {
	name   string
	title  string // what the adapter does
	permit string // why it may
	source string // where that is written
	bug    string // the bug of programs that it finds
}

// parts is the table of behaviours. The parser, the help of the command and the page
// docs/nasty.md use it.
var parts = [NumParts]partInfo{
	Late: {
		name:   "late",
		title:  "Completions enter their completion queue up to 1 ms late, several at a time; if the queue is full, when it has room, or up to 50 ms late. They have all entered before an asynchronous event of a queue pair is raised.",
		permit: "No rule says how soon a completion follows its operation. Each completion raises its event if the queue was armed before the completion entered it, and a poll returns everything that has entered.",
		source: "ibv_poll_cq(3); IBA volume 1, Software Transport Interface, Completion Queue",
		bug:    "A program that polls a fixed number of times, that expects one completion for each event, or that takes the arrival of a message for the completion of its own send.",
	},
	Order: {
		name:   "order",
		title:  "Completions of different work queues that share a completion queue enter it in another order than they happened.",
		permit: "Only the completions of one work queue are in order. Nothing orders those of different queue pairs, or those of a send queue and a receive queue.",
		source: "IBA volume 1, Software Transport Interface, Ordering of Completions",
		bug:    "A program that takes the first completion for that of the queue pair on which it posted first.",
	},
	Events: {
		name:   "events",
		title:  "An armed completion queue raises its event before the completion is there, so that the program polls an empty queue. The completion follows within 200 µs.",
		permit: "An event says that the queue should be polled, not that it has an entry: the manual page says that an extra event may come without a completion. It disarms the queue as every event does.",
		source: "ibv_get_cq_event(3), ibv_req_notify_cq(3)",
		bug:    "A program that does not arm the queue again after it has polled nothing, or that treats an empty poll after an event as an error.",
	},
	Placement: {
		name:   "placement",
		title:  "The bytes of a message are written to memory in any order: the end of a packet before its start, and the last packet before an earlier one. Aligned words of 8 bytes are written at once.",
		permit: "The order of the bytes of a message is not defined unless ibv_query_qp_data_in_order says so, and here it says 0. All bytes are there before the message completes, before a later message completes, and before a later READ is answered.",
		source: "ibv_query_qp_data_in_order(3); IBA volume 1, Transport Layer, Transaction Ordering",
		bug:    "A program that waits for the last byte of a message, or for a flag in it, and then reads the rest.",
	},
	Losses: {
		name:   "losses",
		title:  "Some acknowledgements and responses are lost, so that requests are repeated: one in 100 ms at most, and only for queue pairs with a timeout and a retry count of at least 2. If the peer does not answer the repetition, the lost response counts after all.",
		permit: "A network loses packets. The retry count says how often the queue pair repeats a request before it fails.",
		source: "IBA volume 1, Transport Layer, Reliable Service; ibv_modify_qp(3)",
		bug:    "A program that waits less than its queue pairs take to repeat a request.",
	},
	RNR: {
		name:   "rnr",
		title:  "Some SENDs, and WRITEs with immediate, get one RNR NAK although a receive is posted, if the connection manager has asked the peer to repeat them at least twice (a peer that sets another rnr_retry itself is not known). The peer waits for the RNR timer of the queue pair, 10.24 ms at most.",
		permit: "A responder may answer RNR NAK whenever it is temporarily not ready for a request. The minimum RNR timer is for queues without a receive; it does not affect RNR NAKs for other reasons.",
		source: "IBA volume 1, Transport Layer, RNR NAK, and Software Transport Interface, Modify Queue Pair",
		bug:    "A program that waits less than the RNR timer of its peer.",
	},
	Delays: {
		name:   "delays",
		title:  "A queue pair begins some work requests up to 200 µs late.",
		permit: "No rule says how soon the adapter begins a request.",
		source: "ibv_post_send(3)",
		bug:    "A program that relies on two queue pairs, or two adapters, keeping step.",
	},
	CM: {
		name:   "cm",
		title:  "Messages of connections leave up to 5 ms late, but at most a sixteenth of the time after which they would be repeated, and some, but not REQ, SIDR_REQ, LAP and APR, leave twice. Those of one connection keep their order.",
		permit: "They are datagrams, which may be late or repeated; both sides repeat what is not answered.",
		source: "IBA volume 1, Communication Management, Message Retransmission",
		bug:    "A program that expects RDMA_CM_EVENT_ESTABLISHED before the first message, or events of different connections in the order of the calls.",
	},
	Numbers: {
		name:   "numbers",
		title:  "In programs in C, the handles of objects (the field handle of struct ibv_pd, ibv_mr, ibv_mw, ibv_dm, ibv_cq, ibv_srq, ibv_qp and ibv_ah) are any numbers of 32 bits, in no order.",
		permit: "A handle only identifies an object to the library. QPNs and keys are always random, and are not used again soon.",
		source: "ibv_create_qp(3), ibv_reg_mr(3)",
		bug:    "A program that uses a handle as an index, or stores it in too small a type.",
	},
	Sizes: {
		name:   "sizes",
		title:  "Some queues get twice the entries that the program asked for, twice the elements of a request, or twice the inline data.",
		permit: "The calls return the actual sizes, and each may be larger than the requested size.",
		source: "ibv_create_qp(3), ibv_create_cq(3), ibv_create_srq(3)",
		bug:    "A program that compares the returned values with those it asked for.",
	},
}

// String returns the name of the behaviour, as in without=NAME.
func (p Part) String() string { return parts[p].name }

// Title says what the adapter does.
func (p Part) Title() string { return parts[p].title }

// Permission says why the adapter may do it, and where that is written.
func (p Part) Permission() (why, source string) { return parts[p].permit, parts[p].source }

// Bug says which bugs of programs the behaviour finds.
func (p Part) Bug() string { return parts[p].bug }
