package sim

import (
	"bytes"
	"encoding/binary"

	"github.com/softhca/softhca/ib"
)

// op is a send work request and its expected effects.
type op struct {
	end      *end
	id       uint64
	code     ib.WROpcode
	length   int
	data     []byte // payload of a SEND or WRITE
	imm      uint32
	signaled bool
	bad      flaw
	sources  []*slot // slots of the sender, freed at completion
	landing  *slot   // destination of the response of a READ or an atomic
	target   *slot   // of RDMA, at the peer
	word     *word   // of an atomic, at the peer
	add      uint64
	compare  uint64
	swap     uint64

	space     *space // of the peer
	spaceEra  int    // era of space in which the expectations hold
	delivered bool   // RC: its receive at the peer completed with success
}

// flaw is a deliberate error in a work request.
type flaw uint8

const (
	flawless flaw = iota
	badLKey
	badRKey
	outOfRange
	unaligned // atomic
	deadAH
)

// consumes reports whether the peer needs a receive for it.
func (o *op) consumes() bool {
	switch o.code {
	case ib.WRSend, ib.WRSendWithImm, ib.WRRDMAWriteWithImm:
		return true
	default:
		return false
	}
}

// writes reports whether it is an RDMA WRITE.
func (o *op) writes() bool { return o.code == ib.WRRDMAWrite || o.code == ib.WRRDMAWriteWithImm }

// apply returns the result of an atomic on a value.
func (o *op) apply(v uint64) uint64 {
	switch {
	case o.code == ib.WRAtomicFetchAdd:
		return v + o.add
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
	if o.landing != nil {
		o.landing.accept()
		o.landing.busy, o.landing.hot = false, false
		o.landing = nil
	}
}

// receive is a receive work request.
type receive struct {
	id   uint64
	slot *slot
	size int
	bad  bool
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

// patternWords is the size, in words of 8 bytes, of the text from which all
// messages are taken. Each word encodes its position, so the first bytes
// identify a UC or UD message.
const patternWords = 1 << 17

// spread maps positions to distinct bytes; unspread is its inverse modulo 2^64.
const (
	spread   = 0x9e3779b97f4a7c15
	unspread = 0xf1de83e19937733d
)

// newText returns the text, followed by its beginning again.
func newText(slot int) []byte {
	b := make([]byte, 8*patternWords+slot+8)
	for i := 0; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], (uint64(i/8)%patternWords+1)*spread)
	}
	return b
}

// pattern returns n bytes of the text. The same at gives the same bytes.
func (w *world) pattern(at uint64, n int) []byte {
	off := int(at % patternWords * 8)
	return w.text[off : off+n : off+n]
}

// message describes a UC or UD message, which may arrive any number of times.
// It outlives the queue pairs and does not refer to them.
type message struct {
	code ib.WROpcode
	data []byte
	imm  uint32
	at   *node  // to which it was sent,
	to   ib.QPN // and there
	from ib.QPN
}

// sent remembers a message to an end.
func (w *world) sent(o *op, to *end) {
	w.loose[uint32(o.id%patternWords)] = message{o.code, o.data, o.imm, to.node, to.num, o.end.num}
}

// lookup returns the message of UC or UD that b is, if it is one.
func (w *world) lookup(b []byte, n int) (m message, ok bool) {
	if at := binary.LittleEndian.Uint64(b)*unspread - 1; at < patternWords {
		m, ok = w.loose[uint32(at)]
	}
	return m, ok && n == len(m.data) && bytes.Equal(b[:n], m.data)
}
