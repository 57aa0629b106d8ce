package fault

import "github.com/softhca/softhca/internal/wording"

// Param is a parameter of a rule: an argument of its action, or a selector.
type Param uint8

// The parameters. Arguments come first, then the selectors.
const (
	Time     Param = iota // of delay
	Length                // of truncate
	Speed                 // of rate
	Syndrome              // of nak
	Type                  // of event
	Byte
	Bit
	Xor
	Reseal
	By
	Queue
	Errno
	To
	Nth
	Every
	P
	Count
	After
	For
	Op
	Call // op= of rules on verbs
	Dir
	QPN
	PSN
	Src
	Dst
	Path
	NumParams
)

// kind is the kind of value of a parameter.
type kind uint8

const (
	kindCount    kind = iota // at least 1
	kindQueue                // a count, bounded
	kindOffset               // negative: from the end
	kindBit                  // at least 0
	kindMask                 // 1 to 255
	kindFlag                 // no value
	kindShare                // 0 to 1
	kindDuration             // more than 0
	kindSpeed
	kindLength
	kindOps
	kindCall
	kindDir
	kindPath
	kindNumber // 24 bits
	kindAddr
	kindSyndrome
	kindEvent
	kindErrno
	kindState
)

// paramInfo is one row of the table of parameters.
type paramInfo struct {
	name string
	kind kind
	text string
}

var params = [NumParams]paramInfo{
	Time:     {"time", kindDuration, "How much later, such as 5ms."},
	Length:   {"length", kindLength, "Bytes that are left."},
	Speed:    {"speed", kindSpeed, "Such as 100Mbit/s or 5000packets/s."},
	Syndrome: {"syndrome", kindSyndrome, "SEQUENCE, INVALID_REQUEST, REMOTE_ACCESS, REMOTE_OPERATIONAL or RNR."},
	Type:     {"type", kindEvent, "The event, by its name in verbs without the prefix, such as PORT_ERR."},
	Byte:     {"byte", kindOffset, "The byte to change, from 0, the opcode; -1 is the last, of the ICRC."},
	Bit:      {"bit", kindBit, "The bit to flip: bit 0 is the lowest of byte 0."},
	Xor:      {"xor", kindMask, "What the byte is combined with by exclusive or (default 255)."},
	Reseal:   {"reseal", kindFlag, "Make the ICRC right again."},
	By:       {"by", kindCount, "How many packets overtake it (default 1)."},
	Queue:    {"queue", kindQueue, "Packets that may wait (default 1000, at most 4096)."},
	Errno:    {"errno", kindErrno, "The error number, by its name."},
	To:       {"to", kindState, "The state: ERR or SQE."},
	Nth:      {"nth", kindCount, "The nth that matches all else, once; with every= it is the first."},
	Every:    {"every", kindCount, "Every nth that matches all else."},
	P:        {"p", kindShare, "With this probability, 0 to 1, drawn from the seed."},
	Count:    {"count", kindCount, "At most so many times."},
	After:    {"after", kindDuration, "Not before so long after the adapter was opened."},
	For:      {"for", kindDuration, "Only for so long from then on."},
	Op: {"op", kindOps, "Only packets with this opcode: its name with or without RC_, UC_, UD_, RD_ or XRC_, or how it begins " +
		"(RDMA_WRITE for FIRST, MIDDLE, LAST and ONLY); also ACK, ATOMIC_ACK, NAK (ACKNOWLEDGE with any NAK) and RNR_NAK; several with commas."},
	Call: {"op", kindCall, "The call that is meant (default PostSend)."},
	Dir:  {"dir", kindDir, "out, in or both. Without it: out; with op=, which tells packets apart, and with path=, both."},
	QPN:  {"qpn", kindNumber, "The queue pair: of packets the destination QPN, of calls and events that of the QP."},
	PSN:  {"psn", kindNumber, "The packet sequence number; hexadecimal, as traces show it, after 0x."},
	Src:  {"src", kindAddr, "The IP address that the packet comes from."},
	Dst:  {"dst", kindAddr, "The IP address that the packet goes to."},
	Path: {"path", kindPath, "primary: the packets from and to the adapter's first address; alternate: from and to another one of its addresses, " +
		"where an alternate path begins."},
}

// String returns the name of the parameter in a rule.
func (p Param) String() string { return params[p].name }

// Text describes the parameter and its possible values.
func (p Param) Text() string {
	switch k := params[p].kind; k {
	case kindErrno, kindCall, kindEvent:
		var names []string
		for _, w := range wordsOf(k) {
			names = append(names, w.name)
		}
		return params[p].text + " One of " + wording.Or(names) + "."
	case kindOps:
		return params[p].text + " On packets also a message of the connection manager: " + wording.Or(messageNames()) +
			", or " + allMessages + " for all of them. They are UD_SEND_ONLY too: RC_SEND leaves them alone, SEND does not."
	default:
		return params[p].text
	}
}
