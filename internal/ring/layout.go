package ring

import (
	"sync/atomic"

	"github.com/softhca/softhca/ib"
)

// The layout of a queue. All numbers are in host byte order; "atomic" fields
// are accessed with sequentially consistent loads and stores.
//
//	work queue:        Header, then Mask+1 entries of Stride bytes each:
//	                   a SendWQE or RecvWQE, then its scatter/gather elements
//	                   (ib.SGE, 16 bytes each) or its inline payload; in the
//	                   last 16 bytes, for datagrams and XRC, a SendTo
//	completion queue:  Header; Mask+1 entries of Stride bytes, each a CQE, or
//	                   in a queue with times a TimedCQE, at the address
//	                   Entries, which Resize moves
//
// Indices run freely and wrap at 2^32: index i is in entry i & Mask. Resize of a
// completion queue changes Mask and Entries with Lock held; a reader must hold
// Lock to access them and the entries. Resize of a receive queue changes them
// while no producer is active.

// HeaderSize is the size of a Header in bytes.
const HeaderSize = 64

// Header is the beginning of every queue.
type Header struct {
	Prod    atomic.Uint32 // 0: next index to publish
	Cons    atomic.Uint32 // 4: the oldest index in use; equal to Prod when the queue is empty
	Lock    atomic.Uint32 // 8: completion queue: 1 while a reader holds it, otherwise 0; taken by compare-and-swap
	Armed   atomic.Uint32 // 12: completion queue: one of ArmNone, ArmSolicited, ArmAny
	Flags   atomic.Uint32 // 16: FlagOverflow, FlagDoorbell, FlagSuppressed
	Mask    uint32        // 20: number of entries minus 1
	Stride  uint32        // 24: bytes from one entry to the next
	_       uint32
	Entries uint64 // 32: address of entry 0
	// 40: completion queue: address of a word to which readers copy Cons after they changed it; 0
	// for none.
	Mirror atomic.Uint64
	_      [HeaderSize - 48]byte
}

// Values of Header.Armed: which completion raises the next event.
const (
	ArmNone uint32 = iota
	ArmSolicited
	ArmAny
)

// FlagOverflow is set in Header.Flags when a completion overflowed the queue,
// which then accepts no more.
const FlagOverflow uint32 = 1

// FlagDoorbell is set in Header.Flags of a receive queue while its queue pair
// flushes receives: a producer that sees it after publishing rings the
// doorbell. Otherwise posting a receive needs no doorbell.
const FlagDoorbell uint32 = 2

// FlagSuppressed is set in Header.Flags of a send queue while posted requests wait to
// be sent with later ones (doorbell suppression): the engine checks the queue
// again before it sends. A producer that sees it after publishing need not ring
// the doorbell for a few requests.
const FlagSuppressed uint32 = 4

// SuppressDoorbell suppresses the doorbells of producers that observe FlagSuppressed
// until WantDoorbell. It returns the next index to publish; first is false if
// they were already suppressed.
func (h *Header) SuppressDoorbell() (prod uint32, first bool) {
	if h.Flags.Or(FlagSuppressed)&FlagSuppressed != 0 {
		return 0, false
	}
	return h.Prod.Load(), true
}

// WantDoorbell ends doorbell suppression: producers that publish afterwards see
// that, and entries published before are below the returned index.
func (h *Header) WantDoorbell() (prod uint32) {
	h.Flags.And(^FlagSuppressed)
	return h.Prod.Load()
}

// SendWQE is an entry of a send queue.
type SendWQE struct {
	WRID       uint64       // 0
	RemoteAddr uint64       // 8
	CompareAdd uint64       // 16; of a FLUSH, its bytes
	Swap       uint64       // 24
	Length     uint32       // 32: bytes of payload; for a READ, bytes requested
	RKey       ib.RKey      // 36
	Imm        uint32       // 40: immediate data, the rkey to invalidate, or the type of a FLUSH and, from bit 4 on, its level
	Opcode     ib.WROpcode  // 44
	Flags      ib.SendFlags // 45
	NumSGE     uint8        // 46: scatter/gather elements after the entry
	_          uint8
}

// SendTo is the destination of a work request: the last bytes of every entry of a send
// queue of datagrams, or of an XRC initiator. Other send queues have none.
type SendTo struct {
	AH   uint64  // 0: an ib.AHHandle; for RD, an ib.EECN; for XRC, an ib.SRQN
	QPN  ib.QPN  // 8
	QKey ib.QKey // 12
}

// RecvWQE is an entry of a receive queue.
type RecvWQE struct {
	WRID   uint64 // 0
	Length uint32 // 8: total bytes of the scatter elements
	NumSGE uint32 // 12
}

// CQE is an entry of a completion queue: the fields of ib.WC, and Valid, which
// is written last: it is the entry's index plus 1, so that a reader that
// expects index i sees from the entry alone whether it is valid.
type CQE struct {
	WRID         uint64        // 0
	ByteLen      uint32        // 8
	QPN          ib.QPN        // 12
	SrcQP        ib.QPN        // 16
	ImmData      uint32        // 20
	InvRKey      ib.RKey       // 24
	VendorErr    uint32        // 28
	PKeyIndex    uint16        // 32
	SLID         uint16        // 34
	Status       ib.WCStatus   // 36
	Opcode       ib.WCOpcode   // 37
	Flags        ib.WCFlags    // 38
	SL           uint8         // 39
	DLIDPathBits uint8         // 40
	EEC          [3]byte       // 41: an ib.EECN, its low byte first
	Valid        atomic.Uint32 // 44
}

// TimedCQE is an entry of a completion queue with times: when it was written, in
// nanoseconds on the adapter's clock.
type TimedCQE struct {
	CQE
	Time int64 // 48
}
