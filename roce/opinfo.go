package roce

import "strconv"

// Service is the transport service of a packet: bits 7 to 5 of its opcode.
type Service uint8

// The services. Values 6 and 7 are left to manufacturers.
const (
	ServiceRC Service = iota
	ServiceUC
	ServiceRD
	ServiceUD
	ServiceCNP
	ServiceXRC
)

// String returns the name of the service, such as "RC".
func (s Service) String() string { return nameOf(serviceNames[:], int(s), "Service") }

// Kind is what a packet does, whatever its service and its place in a message.
type Kind uint8

// The kinds. KindResync belongs to RD alone.
const (
	KindSend Kind = iota
	KindWrite
	KindReadRequest
	KindReadResponse
	KindAck
	KindAtomicAck
	KindCompareSwap
	KindFetchAdd
	KindFlush
	KindAtomicWrite
	KindCNP
	KindResync
)

// String returns the name of the kind, such as "READ_REQUEST".
func (k Kind) String() string { return nameOf(kindNames[:], int(k), "Kind") }

// Answer returns the kind of the packets that answer a request of a reliable service, and
// false for what is no such request. A request whose answer is KindAck is acknowledged
// together with others; the others have responses of their own. FLUSH and ATOMIC WRITE have a
// READ response without payload.
func (k Kind) Answer() (Kind, bool) {
	switch k {
	case KindSend, KindWrite, KindResync:
		return KindAck, true
	case KindReadRequest, KindFlush, KindAtomicWrite:
		return KindReadResponse, true
	case KindCompareSwap, KindFetchAdd:
		return KindAtomicAck, true
	default:
		return 0, false
	}
}

// OpFlags is the place of a packet in its message and what it carries.
type OpFlags uint8

// The flags. FIRST has FlagStart, LAST has FlagEnd, ONLY has both, MIDDLE has
// neither.
const (
	FlagStart    OpFlags = 1 << iota // the message begins here
	FlagEnd                          // the message ends here
	FlagImm                          // carries immediate data
	FlagInv                          // carries an R_Key to invalidate
	FlagResponse                     // goes from responder to requester
)

// Headers is the set of extended headers that follow the BTH, which is always
// there. They stand on the wire in the order of these constants.
type Headers uint16

// The extended headers. An opcode has at most one of HasImmDt and HasIETH.
const (
	HasRDETH Headers = 1 << iota
	HasDETH
	HasXRCETH
	HasFETH
	HasRETH
	HasAtomicETH
	HasAETH
	HasAtomicAckETH
	HasImmDt
	HasIETH
)

// headerLens holds the size in bytes of each extended header, in wire order.
var headerLens = [...]struct {
	header Headers
	length uint8
}{
	{HasRDETH, 4}, {HasDETH, 8}, {HasXRCETH, 4}, {HasFETH, 4}, {HasRETH, 16},
	{HasAtomicETH, 28}, {HasAETH, 4}, {HasAtomicAckETH, 8}, {HasImmDt, 4}, {HasIETH, 4},
}

// PayloadRule is how many bytes of payload an opcode may carry (IBA
// 9.7.4). The parser does not enforce it: what a breach
// means depends on the service, and the path MTU is not in the packet.
type PayloadRule uint8

// The rules.
const (
	PayloadNone    PayloadRule = iota // nothing
	PayloadMTU                        // exactly the path MTU
	PayloadUpToMTU                    // 0 to the path MTU
	PayloadLast                       // 1 to the path MTU
	Payload8                          // exactly 8, an atomic write
	Payload16                         // exactly 16, the reserved body of a CNP
)

// String returns the rule in a few letters, such as "1..MTU".
func (r PayloadRule) String() string { return nameOf(ruleNames[:], int(r), "PayloadRule") }

// Allows reports whether n bytes of payload obey the rule on a path whose MTU
// is mtu bytes.
func (r PayloadRule) Allows(n, mtu int) bool {
	switch r {
	case PayloadNone:
		return n == 0
	case PayloadMTU:
		return n == mtu
	case PayloadUpToMTU:
		return n >= 0 && n <= mtu
	case PayloadLast:
		return n >= 1 && n <= mtu
	case Payload8:
		return n == 8
	case Payload16:
		return n == 16
	default:
		panic("roce: unknown payload rule " + r.String())
	}
}

// OpInfo is everything that follows from an opcode alone.
type OpInfo struct {
	Name      string // as Opcode.String; empty if not Known
	Known     bool   // the opcode is assigned; otherwise only Service and HeaderLen mean something
	Service   Service
	Kind      Kind
	Flags     OpFlags
	Headers   Headers
	HeaderLen uint8 // bytes of the BTH and the extended headers
	Payload   PayloadRule
}

var (
	serviceNames = [...]string{"RC", "UC", "RD", "UD", "CNP", "XRC"}
	kindNames    = [...]string{
		"SEND", "WRITE", "READ_REQUEST", "READ_RESPONSE", "ACK", "ATOMIC_ACK",
		"COMPARE_SWAP", "FETCH_ADD", "FLUSH", "ATOMIC_WRITE", "CNP", "RESYNC",
	}
	ruleNames = [...]string{"none", "MTU", "0..MTU", "1..MTU", "8", "16"}
)

// nameOf returns an entry of a table of names, or the number in parentheses
// after kind for a value that has no name.
func nameOf(names []string, v int, kind string) string {
	if v < len(names) {
		return names[v]
	}
	return kind + "(" + strconv.Itoa(v) + ")"
}
