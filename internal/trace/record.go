package trace

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// Kind is the kind of activity that a record describes.
type Kind uint8

// The kinds of records.
const (
	PacketOut   Kind = iota // Header holds the first bytes of the UDP payload
	PacketIn                // likewise; the packet passed every check up to the QP
	State                   // From, To, Cause
	Completion              // WRID, Status
	Event                   // Event
	Retry                   // sending goes back to PSN; Cause
	Drop                    // a packet was dropped, by the QP in the state From, or because there is no such QP; Cause
	Fault                   // a fault rule acted, Cause; on a packet for QPN if Len is not 0: PSN, Header
	Repair                  // sending goes back to PSN without counting as a retry; Cause
	Challenge               // a challenge of the peer starts or ends; Cause
	Connection              // Change of a connection to a service; Cause if it ended
	Refusal                 // a request of the peer is refused; Cause says exactly why
	MemoryError             // a work request cannot use its memory; Cause says exactly why
	NumKinds
)

// HeaderBytes is the size of the part of a packet in a record: all of its
// headers, and enough of a management datagram to identify the message.
const HeaderBytes = max(roce.MaxHeaderLen, madOffset+mad.SummarySize)

// madOffset is the offset of the management datagram in a packet to QP1: after
// BTH and DETH.
const madOffset = roce.BTHLen + 8

// Change is what happened to a connection.
type Change uint8

// The changes of a connection.
const (
	NoChange    Change = iota
	Established        // both sides may send
	Ended              // by this side, by the peer, or because the peer has forgotten it
	Rejected           // this side refused the peer's request
	RejectedBy         // the peer refused the request of this side
	Unanswered         // the peer did not answer
)

var changeNames = [...]string{"", "established", "ended", "rejected", "rejected by the peer", "unanswered"}

// String returns the change in words, empty for NoChange.
func (c Change) String() string {
	if int(c) < len(changeNames) {
		return changeNames[c]
	}
	return fmt.Sprintf("change %d", uint8(c))
}

// Record describes one activity of a queue pair, an EE context or a connection. Records of packets
// and of faults have no peer and no addresses: the packet has them.
type Record struct {
	At     clock.Instant
	Kind   Kind
	From   ib.QPState
	To     ib.QPState
	Status ib.WCStatus
	Event  ib.EventType
	Change Change
	EEC    bool // QPN is the number of an EE context
	QPN    ib.QPN
	PSN    ib.PSN
	WRID   uint64
	Len    int // bytes of the whole UDP payload
	Cause  string
	Access bool   // of a Refusal: of an access to memory, but not by a fault on demand
	Key    uint32 // of such a Refusal: the key of the memory, 0 if there is none
	// Peer is the number of the peer's queue pair or EE context, 0 if there is none or it is not
	// known. Local and Remote are the addresses of both ends.
	Peer          ib.QPN
	Local, Remote netip.Addr
	Service       mad.ServiceID // of a Connection
	Header        [HeaderBytes]byte
}

// Tracer receives records as they happen, on the thread that causes them. Those of connections come
// from the thread of the control plane, and may come at the same time as others. It must not block
// and must copy what it keeps. A nil Tracer costs one comparison.
type Tracer func(*Record)

// String returns one line without the time.
func (r *Record) String() string {
	switch r.Kind {
	case PacketOut, PacketIn:
		dir := "->"
		if r.Kind == PacketIn {
			dir = "<-"
		}
		return fmt.Sprintf("%s %s %s", r.whose(), dir, r.packet())
	case State:
		return fmt.Sprintf("%s %v -> %v (%s)", r.whose(), r.From, r.To, r.Cause)
	case Completion:
		return fmt.Sprintf("%s completion wr_id %d %v", r.whose(), r.WRID, r.Status)
	case Event:
		return fmt.Sprintf("%s event %v", r.whose(), r.Event)
	case Retry, Repair:
		return fmt.Sprintf("%s sends again from psn %v (%s)", r.whose(), r.PSN, r.Cause)
	case Challenge:
		return fmt.Sprintf("%s %s", r.whose(), r.Cause)
	case Connection:
		return r.connection()
	case Refusal:
		return fmt.Sprintf("%s refuses psn %v: %s", r.whose(), r.PSN, r.Cause)
	case MemoryError:
		return fmt.Sprintf("%s %s", r.whose(), r.Cause)
	case Drop:
		return fmt.Sprintf("%s drops psn %v (%s)", r.whose(), r.PSN, r.Cause)
	case Fault:
		if r.Len == 0 {
			return fmt.Sprintf("%s fault: %s", r.whose(), r.Cause)
		}
		return fmt.Sprintf("to %s fault: %s: %s", r.whose(), r.Cause, r.packet())
	default:
		return fmt.Sprintf("%s record kind %d", r.whose(), r.Kind)
	}
}

// connection describes the change of a connection.
func (r *Record) connection() string {
	s := fmt.Sprintf("%s service %v with %v: %v", r.whose(), r.Service, r.Remote, r.Change)
	if r.Cause != "" {
		s += " (" + r.Cause + ")"
	}
	return s
}

// whose names the queue pair or EE context of the record.
func (r *Record) whose() string {
	if r.EEC {
		return "eec " + r.QPN.String()
	}
	return "qp " + r.QPN.String()
}

// packet describes the packet of the record. The syndrome distinguishes an ACK
// from a NAK, which have the same opcode.
func (r *Record) packet() string {
	s := fmt.Sprintf("%v psn %v len %d", roce.Opcode(r.Header[0]), r.PSN, r.Len)
	if a, ok := r.AETH(); ok {
		s += fmt.Sprintf(" syndrome %v msn %d", a.Syndrome, a.MSN)
	}
	if m := r.MAD(); m != nil {
		s += ": " + mad.Summary(m)
	}
	return s
}

// AETH returns the ACK extended header in the packet of the record. It reports false if the packet
// has none.
func (r *Record) AETH() (roce.AETH, bool) {
	var p roce.Packet
	fault := p.ParseHeaders(r.Header[:])
	return p.AETH, fault == roce.FaultNone && p.Info.Headers&roce.HasAETH != 0
}

// MAD returns the beginning of the management datagram in the packet of the
// record, nil if it is none. It is a part of the record, not a copy.
func (r *Record) MAD() *[mad.SummarySize]byte {
	const size = madOffset + mad.Size + roce.ICRCLen
	first := r.Header[madOffset:]
	dest := binary.BigEndian.Uint32(r.Header[4:]) & (1<<24 - 1)
	if roce.Opcode(r.Header[0]) != roce.UDSendOnly || ib.QPN(dest) != ib.QPNGSI || r.Len != size || first[0] != mad.BaseVersion {
		return nil
	}
	return (*[mad.SummarySize]byte)(first)
}
