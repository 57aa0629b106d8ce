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
	Status                // of wc
	Reason                // of reject
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
	Request // op= of rules on requests
	Call    // op= of rules on verbs
	Dir
	QPN
	PSN
	Src
	Dst
	Path
	Process
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
	kindRequest
	kindCall
	kindDir
	kindPath
	kindName
	kindNumber // 24 bits
	kindAddr
	kindSyndrome
	kindStatus
	kindReason
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
	Time:     {"time", kindDuration, "The delay, such as 5ms."},
	Length:   {"length", kindLength, "The length to cut the packet to, in bytes."},
	Speed:    {"speed", kindSpeed, "The rate, such as 100Mbit/s or 5000packets/s."},
	Syndrome: {"syndrome", kindSyndrome, "The NAK: SEQUENCE, INVALID_REQUEST, REMOTE_ACCESS, REMOTE_OPERATIONAL or RNR."},
	Status: {"status", kindStatus, "The status: LOC_QP_OP_ERR for any request; LOC_LEN_ERR or LOC_PROT_ERR for requests with data; RETRY_EXC_ERR for all that are sent, " +
		"RNR_RETRY_EXC_ERR for SENDs and RDMA_WRITE_WITH_IMM, REM_ACCESS_ERR for requests with a key, and REM_INV_REQ_ERR for atomics, all four on RC, XRC and RD; MW_BIND_ERR for BIND_MW and LOCAL_INV."},
	Reason: {"reason", kindReason, "The reason, by its name."},
	Type:   {"type", kindEvent, "The event, by its name in verbs without the prefix, such as PORT_ERR."},
	Byte:   {"byte", kindOffset, "The byte to change: 0 is the first byte, the opcode; -1 is the last byte, part of the ICRC."},
	Bit:    {"bit", kindBit, "The bit to flip: 0 is the lowest bit of byte 0."},
	Xor:    {"xor", kindMask, "XOR the byte with this value (default 255)."},
	Reseal: {"reseal", kindFlag, "Compute the ICRC of the changed packet."},
	By:     {"by", kindCount, "The number of packets that overtake it (default 1)."},
	Queue:  {"queue", kindQueue, "The maximum number of packets that wait (default 1000, at most 4096)."},
	Errno:  {"errno", kindErrno, "The error number, by its name."},
	To:     {"to", kindState, "The state: ERR or SQE."},
	Nth:    {"nth", kindCount, "Only the nth match; with every=, the first one."},
	Every:  {"every", kindCount, "Every nth match."},
	P:      {"p", kindShare, "Each match with this probability, 0 to 1, drawn from the seed."},
	Count:  {"count", kindCount, "The maximum number of times that the rule acts."},
	After:  {"after", kindDuration, "Only after this time since the adapter was opened."},
	For:    {"for", kindDuration, "Only for this time, from after= on."},
	Op: {"op", kindOps, "Only packets with this opcode: its name with or without RC_, UC_, UD_, RD_ or XRC_, or the beginning of its name " +
		"(RDMA_WRITE for FIRST, MIDDLE, LAST and ONLY); also ACK, ATOMIC_ACK, NAK (ACKNOWLEDGE with any NAK) and RNR_NAK. Separate several by commas."},
	Request: {"op", kindRequest, "Only work requests with this opcode: its name, such as RDMA_READ, or the beginning of its name (SEND for SEND_WITH_IMM and SEND_WITH_INV, too). " +
		"Separate several by commas. bindfail acts on BIND_MW and LOCAL_INV only. BIND_MW includes ibv_bind_mw."},
	Call: {"op", kindCall, "Only this call (default PostSend)."},
	Dir:  {"dir", kindDir, "out, in or both. The default is out; with op= or path= it is both."},
	QPN:  {"qpn", kindNumber, "The number of the queue pair: for packets the destination QPN, for calls and events that of their queue pair."},
	PSN:  {"psn", kindNumber, "The packet sequence number; write 0x before hexadecimal digits."},
	Src:  {"src", kindAddr, "The source IP address of the packet."},
	Dst:  {"dst", kindAddr, "The destination IP address of the packet."},
	Path: {"path", kindPath, "primary: packets from and to the adapter's first address; alternate: packets from and to its other addresses, " +
		"at which alternate paths begin."},
	Process: {"process", kindName, "Only in this process of softhca explore: the name of the program, a dot and a number, such as client.2."},
}

// String returns the name of the parameter in a rule.
func (p Param) String() string { return params[p].name }

// Text describes the parameter and its possible values.
func (p Param) Text() string {
	switch k := params[p].kind; k {
	case kindErrno, kindCall, kindEvent, kindReason:
		var names []string
		for _, w := range wordsOf(k) {
			names = append(names, w.name)
		}
		return params[p].text + " One of " + wording.Or(names) + "."
	case kindOps:
		return params[p].text + " Rules on packets also accept a message of the connection manager: " + wording.Or(messageNames()) +
			", or " + allMessages + " for all of them. These messages are UD_SEND_ONLY packets too: SEND matches them, RC_SEND does not."
	default:
		return params[p].text
	}
}
