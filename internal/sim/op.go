package sim

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/memory"
)

// op is a send work request and its expected effects.
type op struct {
	end         *end
	id          uint64
	code        ib.WROpcode
	wr          ib.SendWR // without what id, code and signaled say, until it is posted
	length      int
	data        []byte // payload of a SEND or WRITE
	imm         uint32
	signaled    bool
	bad         flaw
	sources     []*slot // slots of the sender, freed at completion
	destination *slot   // destination of the response of a READ or an atomic
	target      *slot   // of RDMA or a FLUSH, at the peer
	word        *word   // of an atomic or an ATOMIC WRITE, at the peer
	add         uint64
	compare     uint64
	swap        uint64

	queue     *sharedQueue   // over XRC, the queue that it names
	window    *memory.Window // of a bind or a LOCAL_INV
	binds     *grant         // the key that a bind makes
	grant     *grant         // the key of type 2 that it names
	space     *space         // of the peer
	spaceEra  int            // era of space in which the expectations hold
	delivered bool           // RC: its receive at the peer completed with success
	doubtful  bool           // a forged NAK has acknowledged it: it may never be delivered
}

// flaw is a deliberate error in a work request.
type flaw uint8

const (
	flawless flaw = iota
	badLKey
	badRKey
	outOfRange
	unaligned // atomic, ATOMIC WRITE
	deadAH
	noQueue      // no shared receive queue in the target's domain has the number
	foreignQueue // the key and the shared receive queue are in different protection domains
	badBind      // an invalid bind or invalidation
)

// consumes reports whether the peer needs a receive for it.
func (o *op) consumes() bool {
	switch o.code {
	case ib.WRSend, ib.WRSendWithImm, ib.WRSendWithInv, ib.WRRDMAWriteWithImm:
		return true
	default:
		return false
	}
}

// isAnswered reports whether the request has an answer of its own.
func (o *op) isAnswered() bool {
	switch o.code {
	case ib.WRRDMARead, ib.WRAtomicFetchAdd, ib.WRAtomicCmpAndSwp, ib.WRAtomicWrite, ib.WRFlush:
		return true
	default:
		return false
	}
}

// writes reports whether it is an RDMA WRITE.
func (o *op) writes() bool { return o.code == ib.WRRDMAWrite || o.code == ib.WRRDMAWriteWithImm }

// apply returns the result of an atomic, or an ATOMIC WRITE, on a value.
func (o *op) apply(v uint64) uint64 {
	switch {
	case o.code == ib.WRAtomicFetchAdd:
		return v + o.add
	case o.code == ib.WRAtomicWrite:
		return o.swap
	case v == o.compare:
		return o.swap
	default:
		return v
	}
}

// drop frees a request's resources on its own side.
func (o *op) drop() {
	for _, s := range o.sources {
		s.busy = false
	}
	o.sources = nil
	if o.destination != nil {
		o.destination.accept()
		o.destination.busy, o.destination.hot = false, false
		o.destination = nil
	}
}

// receive is a receive work request.
type receive struct {
	id    uint64
	queue *sharedQueue // nil: the queue pair's own
	slot  *slot
	size  int
	bad   bool
}

// drop frees its slot.
func (v *receive) drop() {
	if v.slot != nil && v.slot.owner == v.id {
		v.slot.accept()
		v.slot.busy, v.slot.hot = false, false
	}
}

// wrIDs: bit 0 distinguishes receives from sends, the rest is a counter.
func (w *world) nextID(recv bool) uint64 {
	w.ids++
	id := w.ids << 1
	if recv {
		id |= 1
	}
	return id
}

func isRecv(id uint64) bool { return id&1 != 0 }
