package sim

import (
	"bytes"
	"cmp"
	"encoding/binary"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/memory"
)

// space is the memory of an end and the model of its contents: two regions, one
// that the peer may access with WRITE, READ and atomics, and one that only the
// local adapter writes. Both are cut into slots with guards between.
type space struct {
	w      *world
	node   *node
	pd     *hca.PD
	remote area
	local  area
	words  []word
	stored []byte    // contents of the remote area on simulated storage
	era    int       // changes with the region, its window or the connection
	access ib.Access // of the remote region
	deaths int       // of its window
	fixed  bool      // UC: a target slot has the same contents throughout a connection
}

// area is one region.
type area struct {
	buf  []byte // memory that the adapter accesses
	want []byte // its expected contents, except for hot slots
	mr   *memory.Region
	mw   *memory.Window // of type 1, through which the peer accesses it; nil: by the region's own key
	// binding is the window of type 2 through which the peer accesses it; nil: there is none.
	binding *binding
	slots   []slot
}

// slot is a piece of an area that one work request uses at a time, or several
// in order, as the target of RDMA.
type slot struct {
	area    *area
	off     int
	size    int
	busy    bool     // taken by a work request or a receive of this end
	hot     bool     // the adapter may be writing it
	writers []writer // incomplete WRITEs of the peer, in order
	owner   uint64   // of the receive that was posted with it last
}

// writer is the data that a WRITE puts into a slot.
type writer struct {
	op   *op // nil: all WRITEs of a UC connection
	data []byte
}

// word is the target of atomics.
type word struct {
	off     int
	value   uint64 // after the complete ones
	pending []*op  // in order
}

// spaceConfig holds the numbers of slots of a space.
type spaceConfig struct {
	target, words, local, recv int
	fixed                      bool
	pd                         *hca.PD // nil: the node's first protection domain
	binds                      *end    // the end that has a window of type 2 on the space; nil: none
}

// guard is the bytes between slots that must not be written.
const guard = 32

func newSpace(w *world, n *node, c spaceConfig) *space {
	s := &space{w: w, node: n, pd: cmp.Or(c.pd, n.PD), fixed: c.fixed, access: ib.AccessLocalWrite | ib.AccessRemote}
	if w.spaces++; c.target > 0 && w.spaces%2 == 0 {
		s.access = ib.AccessLocalWrite | ib.AccessMWBind
	}
	if c.binds != nil {
		s.access = ib.AccessLocalWrite | ib.AccessMWBind
	}
	size := w.plan.slot
	s.remote = newArea(c.target, size, c.words*8+guard)
	s.local = newArea(c.local+c.recv, size+grhRoom, guard)
	s.stored = make([]byte, len(s.remote.buf))
	s.words = make([]word, c.words)
	for i := range s.words {
		s.words[i].off = i * 8
	}
	if c.binds != nil {
		s.remote.binding = &binding{e: c.binds, s: s}
	}
	s.register(true)
	s.register(false)
	return s
}

// grhRoom is the bytes before a UD message.
const grhRoom = 40

func newArea(slots, size, head int) area {
	head = (head + 7) &^ 7
	size = (size + 7) &^ 7
	n := head + slots*(size+guard)
	a := area{buf: make([]byte, n), want: make([]byte, n), slots: make([]slot, slots)}
	for i := range a.slots {
		a.slots[i] = slot{off: head + i*(size+guard), size: size}
	}
	return a
}

// register gives an area a region, in place of its previous one.
func (s *space) register(remote bool) {
	a, access := &s.local, ib.AccessLocalWrite
	if remote {
		a, access = &s.remote, s.access|ib.AccessFlush
	}
	for i := range a.slots {
		a.slots[i].area = a
	}
	mr, err := s.pd.RegMR(memory.RegionConfig{Buf: a.buf, IOVA: 1 << 40, Access: access, Durable: remote})
	s.w.Must(err)
	if a.mr = mr; remote && s.windowed() {
		s.openWindow()
	}
}

// deregister replaces an area's region by a new one, or only its window: accesses through the old
// key must not change the memory.
func (s *space) deregister(remote bool) {
	a := &s.local
	if remote {
		a = &s.remote
		if b := s.remote.binding; b != nil {
			if b.replaced() {
				return
			}
		} else if s.windowed() {
			if s.deaths++; s.way() != withRegion {
				s.replaceWindow()
				return
			}
			s.closeWindow()
		}
	}
	s.w.Must(s.pd.DeregMR(a.mr))
	if remote {
		s.resolve("the region was deregistered")
	} else {
		for i := range s.local.slots {
			l := &s.local.slots[i]
			l.accept()
			l.hot = false
		}
	}
	s.register(remote)
}

// writtenBack stores memory of the remote area, if it is that.
func (s *space) writtenBack(mem []byte) {
	for off := range s.remote.buf {
		if &s.remote.buf[off] == &mem[0] {
			copy(s.stored[off:], mem)
			return
		}
	}
}

// close ends the regions. The queue pair is gone, and with it the binding of its window.
func (s *space) close() {
	if b := s.remote.binding; b != nil {
		b.grant, b.changing = nil, nil
	}
	s.sweep()
	if s.remote.mw != nil {
		s.w.Must(s.pd.DeallocMW(s.remote.mw))
	}
	s.w.Must(s.pd.DeregMR(s.remote.mr))
	if b := s.remote.binding; b != nil { // its window, no longer bound, did not keep the region
		s.w.Must(s.pd.DeallocMW(b.mw))
	}
	s.w.Must(s.pd.DeregMR(s.local.mr))
}

// restart starts a new connection.
func (s *space) restart(gen int) {
	for i := range s.local.slots {
		l := &s.local.slots[i]
		l.accept()
		l.busy, l.hot = false, false
	}
	for i := range s.remote.slots {
		t := &s.remote.slots[i]
		t.busy, t.writers = false, nil
		if s.fixed {
			t.writers = []writer{{data: s.w.text.pattern(uint64(gen*len(s.remote.slots)+i)*97, t.size)}}
		}
	}
	for i := range s.words {
		s.words[i].pending = nil
	}
	s.remote.binding.restart()
}

// free returns a slot from lo to hi that is free, nil if there is none.
func (a *area) free(lo, hi int) *slot {
	for i := lo; i < hi; i++ {
		if s := &a.slots[i]; !s.busy {
			s.busy = true
			return s
		}
	}
	return nil
}

// bytes returns the slot's memory, model its model.
func (l *slot) bytes() []byte { return l.area.buf[l.off : l.off+l.size] }
func (l *slot) model() []byte { return l.area.want[l.off : l.off+l.size] }

// addr returns the address of the slot's first byte.
func (l *slot) addr() uint64 { return l.area.base() + uint64(l.off) }

// base returns the address of the area's first byte, len the number of bytes that the peer reaches.
func (a *area) base() uint64 {
	if b := a.binding; b != nil && b.grant != nil && b.grant.zeroBased {
		return 0
	}
	return a.mr.Addr()
}

func (a *area) len() uint64 {
	if b := a.binding; b != nil && b.grant != nil {
		last := &a.slots[b.grant.slots-1]
		return uint64(last.off + last.size)
	}
	return a.mr.Len()
}

// open returns the slots that the peer reaches.
func (a *area) open() []slot {
	if b := a.binding; b != nil && b.grant != nil {
		return a.slots[:b.grant.slots]
	}
	return a.slots
}

// accept copies the memory to the model, for unpredictable contents.
func (l *slot) accept() { copy(l.model(), l.bytes()) }

// fill writes the data of a request.
func (l *slot) fill(data []byte) {
	copy(l.bytes(), data)
	copy(l.model(), data)
}

// wrote applies a WRITE that succeeded, and all before it.
func (l *slot) wrote(o *op) bool {
	for i := range l.writers {
		if l.writers[i].op == o {
			l.writers = l.writers[i+1:]
			copy(l.model(), o.data)
			return l.consistent()
		}
	}
	return true // its effect was settled before
}

// consistent reports whether each byte is what the model says, or the data of a
// pending WRITE.
func (l *slot) consistent() bool { return l.explains(l.bytes()) }

// explains reports whether b could have been read from the slot.
func (l *slot) explains(b []byte) bool {
	want := l.model()[:len(b)]
	if bytes.Equal(b, want) {
		return true
	}
	for i := range b {
		if b[i] != want[i] && !l.mayHold(i, b[i]) {
			return false
		}
	}
	return true
}

func (l *slot) mayHold(i int, v byte) bool {
	for k := range l.writers {
		if d := l.writers[k].data; i < len(d) && d[i] == v {
			return true
		}
	}
	return false
}

// resolve is called when no more packets can arrive from the peer: the actual
// effects of its pending requests are checked once and become the model.
func (s *space) resolve(why string) {
	s.era++
	for i := range s.remote.slots {
		t := &s.remote.slots[i]
		if len(t.writers) == 0 {
			continue
		}
		if !t.consistent() {
			s.w.Fail("memory", "adapter %d: when %s, target %d holds bytes that no WRITE has put there", s.node.Index, why, i)
		}
		t.accept()
		if !s.fixed {
			t.writers = nil
		}
	}
	for i := range s.words {
		s.words[i].settle(s, why)
	}
}

// settle finds how many of the pending atomics were executed, from the first
// on.
func (x *word) settle(s *space, why string) {
	have := binary.NativeEndian.Uint64(s.remote.buf[x.off:])
	v := x.value
	ok := v == have
	for _, o := range x.pending {
		v = o.apply(v)
		ok = ok || v == have
	}
	if !ok {
		s.w.Fail("atomic", "adapter %d: when %s, the word at %d is %#x: no number of the %d pending atomics, each once, makes that of %#x",
			s.node.Index, why, x.off, have, len(x.pending), x.value)
	}
	x.value, x.pending = have, nil
	binary.NativeEndian.PutUint64(s.remote.want[x.off:], have)
}

// executed applies an atomic that succeeded and returns the value that it must
// have found.
func (x *word) executed(o *op) (found uint64, known bool) {
	for i, p := range x.pending {
		if p == o {
			found = x.value
			for _, q := range x.pending[:i+1] {
				found, x.value = x.value, q.apply(x.value)
			}
			x.pending = x.pending[i+1:]
			return found, true
		}
	}
	return 0, false
}

// sweep compares all memory that is not being written with the model.
func (s *space) sweep() {
	s.remote.binding.check()
	s.remote.sweep(s, func(l *slot) bool { return len(l.writers) > 0 })
	s.local.sweep(s, func(l *slot) bool { return l.hot })
	for i := range s.words {
		if x := &s.words[i]; len(x.pending) == 0 && binary.NativeEndian.Uint64(s.remote.buf[x.off:]) != x.value {
			s.w.Fail("atomic", "adapter %d: the word at %d changed by itself", s.node.Index, x.off)
		}
	}
}

func (a *area) sweep(s *space, skip func(*slot) bool) {
	from := len(s.words) * 8 // the words are checked separately
	if a == &s.local {
		from = 0
	}
	for i := range a.slots {
		l := &a.slots[i]
		end := l.off + l.size
		if skip(l) {
			end = l.off
		}
		if !bytes.Equal(a.buf[from:end], a.want[from:end]) {
			s.w.Fail("memory", "adapter %d: bytes %d to %d of a region changed without a request that writes them", s.node.Index, from, end)
			return
		}
		from = l.off + l.size
	}
	if !bytes.Equal(a.buf[from:], a.want[from:]) {
		s.w.Fail("memory", "adapter %d: bytes from %d on of a region changed without a request that writes them", s.node.Index, from)
	}
}
