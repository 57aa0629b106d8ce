package trace

import (
	"encoding/binary"
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// Kind is the kind of activity that a record describes.
type Kind uint8

// The kinds of records.
const (
	PacketOut  Kind = iota // Header holds the first bytes of the UDP payload
	PacketIn               // likewise; the packet passed every check up to the QP
	State                  // From, To, Cause
	Completion             // WRID, Status
	Event                  // Event
	Retry                  // sending goes back to PSN; Cause
	Drop                   // a packet for this QP was dropped; Cause
	Fault                  // a fault rule acted, Cause; on a packet for QPN if Len is not 0: PSN, Header
	Repair                 // sending goes back to PSN without counting as a retry; Cause
	Challenge              // a challenge of the peer starts or ends; Cause
)

// HeaderBytes is the size of the part of a packet in a record: all of its
// headers, and enough of a management datagram to identify the message.
const HeaderBytes = max(roce.MaxHeaderLen, madOffset+mad.SummarySize)

// madOffset is the offset of the management datagram in a packet to QP1: after
// BTH and DETH.
const madOffset = roce.BTHLen + 8

// Record describes one activity of a queue pair or an EE context.
type Record struct {
	At     clock.Instant
	Kind   Kind
	From   ib.QPState
	To     ib.QPState
	Status ib.WCStatus
	Event  ib.EventType
	EEC    bool // QPN is the number of an EE context
	QPN    ib.QPN
	PSN    ib.PSN
	WRID   uint64
	Len    int // bytes of the whole UDP payload
	Cause  string
	Header [HeaderBytes]byte
}

// Tracer receives records as they happen, on the thread that holds the
// shard. It must not block and must copy what it keeps. A nil Tracer costs
// one comparison.
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
	var p roce.Packet
	if fault := p.ParseHeaders(r.Header[:]); fault == roce.FaultNone && p.Info.Headers&roce.HasAETH != 0 {
		s += fmt.Sprintf(" syndrome %v msn %d", p.AETH.Syndrome, p.AETH.MSN)
	}
	if m := r.MAD(); m != nil {
		s += ": " + mad.Summary(m)
	}
	return s
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
