package sim

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/softhca/softhca/ib"
)

// makeOp draws a work request for a connected end. It returns nil when the
// program has no free memory for it.
func (e *end) makeOp(r *rand.Rand) *op {
	codes := []ib.WROpcode{
		ib.WRRDMAWrite, ib.WRRDMAWrite, ib.WRRDMAWriteWithImm, ib.WRSend, ib.WRSend, ib.WRSendWithImm,
		ib.WRRDMARead, ib.WRRDMARead, ib.WRAtomicFetchAdd, ib.WRAtomicCmpAndSwp, ib.WRAtomicWrite, ib.WRFlush,
	}
	if !e.reliable {
		codes = codes[:6]
	}
	if !e.peer.space.remote.binding.usable() {
		codes = codes[3:6] // the SENDs
	}
	o := &op{end: e, id: e.w.nextID(false), code: codes[r.IntN(len(codes))], signaled: r.IntN(4) > 0}
	if r.IntN(8) == 0 {
		o.wr.Flags |= ib.SendFence
	}
	if r.IntN(4) == 0 && (e.reliable || !o.writes()) { // the receiver's model does not see WRITEs over UC
		o.wr.Flags |= ib.SendSolicited
	}
	o.queue = e.peer.domain.draw(r, o.code)
	ok := false
	switch o.code {
	case ib.WRRDMARead:
		ok = o.makeRead(r)
	case ib.WRAtomicFetchAdd, ib.WRAtomicCmpAndSwp:
		ok = o.makeAtomic(r)
	case ib.WRAtomicWrite:
		ok = o.makeAtomicWrite(r)
	case ib.WRFlush:
		ok = o.makeFlush(r)
	default:
		ok = o.makeData(r)
	}
	if !ok {
		o.drop()
		return nil
	}
	if b := e.peer.space.remote.binding; b != nil && (o.target != nil || o.word != nil) {
		o.grant = b.grant
	}
	return o
}

// drawLength draws the length of a message: often small, often some packets.
func (o *op) drawLength(r *rand.Rand) int {
	most := o.end.w.plan.slot
	switch r.IntN(6) {
	case 0:
		return 0
	case 1:
		return min(1+r.IntN(64), most)
	case 2: // just around a packet
		return min(max(o.end.pair.mtu.Bytes()*(1+r.IntN(3))-1+r.IntN(3), 0), most)
	default:
		return r.IntN(most + 1)
	}
}

// makeData fills in the fields of a SEND or a WRITE.
func (o *op) makeData(r *rand.Rand) bool {
	e, wr := o.end, &o.wr
	o.length = o.drawLength(r)
	if !e.reliable && !o.writes() {
		o.length = max(o.length, 8) // its first bytes identify it
	}
	o.imm = r.Uint32()
	wr.ImmData = o.imm
	if o.writes() {
		o.drawTarget(r)
		t := o.target
		wr.RemoteAddr, wr.RKey = t.addr(), t.area.rkey()
		if o.length == 0 && r.IntN(2) == 0 {
			wr.RKey, wr.RemoteAddr = 0x12345678, 1 // they are not checked (E13)
		}
	}
	o.data = e.w.text.pattern(o.id, o.length)
	if !e.reliable {
		if o.writes() {
			o.data = o.target.writers[0].data[:o.length]
		} else {
			e.w.text.sent(o, e.peer)
		}
	}
	if o.length <= int(endCap.MaxInlineData) && r.IntN(2) == 0 {
		wr.Flags |= ib.SendInline
		wr.InlineData = o.data
		return true
	}
	return o.gather(r)
}

// drawTarget draws a slot of the peer: mostly one without other pending WRITEs.
func (o *op) drawTarget(r *rand.Rand) {
	slots := o.end.peer.space.remote.open()
	o.target = &slots[r.IntN(len(slots))]
	if len(o.target.writers) > 0 && r.IntN(3) > 0 {
		o.target = &slots[r.IntN(len(slots))]
	}
}

// gather sets a request's gather list to pieces of a slot with its data.
func (o *op) gather(r *rand.Rand) bool {
	s := o.end.space.local.free(0, localSlots)
	if s == nil {
		return false
	}
	o.sources = append(o.sources, s)
	s.fill(o.data)
	o.wr.SGList = pieces(s, o.length, 1+r.IntN(int(endCap.MaxSendSGE)))
	return true
}

// pieces cuts the first n bytes of a slot into a scatter/gather list.
func pieces(s *slot, n, parts int) []ib.SGE {
	var list []ib.SGE
	for off := 0; parts > 0; parts-- {
		k := (n - off) / parts
		list = append(list, ib.SGE{Addr: s.addr() + uint64(off), Length: uint32(k), LKey: s.area.mr.LKey()})
		off += k
	}
	return list
}

// makeRead fills in a READ.
func (o *op) makeRead(r *rand.Rand) bool {
	o.length = o.drawLength(r)
	if !o.land() {
		return false
	}
	o.drawTarget(r)
	o.wr.RemoteAddr, o.wr.RKey = o.target.addr(), o.target.area.rkey()
	o.wr.SGList = pieces(o.destination, o.length, 1+r.IntN(int(endCap.MaxSendSGE)))
	return true
}

// land takes a slot for the response, if one is free.
func (o *op) land() bool {
	if o.destination = o.end.space.local.free(0, localSlots); o.destination == nil {
		return false
	}
	o.destination.hot = true
	return true
}

// makeAtomic fills in an atomic. A COMPARE&SWAP mostly compares with the actual
// value.
func (o *op) makeAtomic(r *rand.Rand) bool {
	o.length = 8
	if !o.land() {
		return false
	}
	peer, wr := o.end.peer.space, &o.wr
	o.word = &peer.words[r.IntN(len(peer.words))]
	o.add, o.swap = r.Uint64(), r.Uint64()
	o.compare = o.word.value
	for _, p := range o.word.pending {
		o.compare = p.apply(o.compare)
	}
	if r.IntN(4) == 0 {
		o.compare++
	}
	wr.RemoteAddr, wr.RKey = peer.remote.base()+uint64(o.word.off), peer.remote.rkey()
	wr.CompareAdd, wr.Swap = o.compare, o.swap
	if o.code == ib.WRAtomicFetchAdd {
		wr.CompareAdd = o.add
	}
	wr.SGList = pieces(o.destination, 8, 1)
	return true
}

// makeAtomicWrite fills in an ATOMIC WRITE.
func (o *op) makeAtomicWrite(r *rand.Rand) bool {
	o.length = 8
	peer, wr := o.end.peer.space, &o.wr
	o.word = &peer.words[r.IntN(len(peer.words))]
	o.swap = r.Uint64()
	o.data = binary.NativeEndian.AppendUint64(nil, o.swap)
	wr.RemoteAddr, wr.RKey = peer.remote.base()+uint64(o.word.off), peer.remote.rkey()
	if r.IntN(2) == 0 && o.length <= int(endCap.MaxInlineData) {
		wr.Flags |= ib.SendInline
		wr.InlineData = o.data
		return true
	}
	return o.gather(r)
}

// makeFlush fills in a FLUSH of a part of a slot, or of the region.
func (o *op) makeFlush(r *rand.Rand) bool {
	o.drawTarget(r)
	wr := &o.wr
	wr.RemoteAddr, wr.RKey = o.target.addr(), o.target.area.rkey()
	wr.Flush = ib.Flush{Length: uint32(r.IntN(o.target.size + 1)), Type: ib.FlushType(1 + r.IntN(3))}
	if r.IntN(4) == 0 {
		wr.RemoteAddr, wr.Flush = r.Uint64(), ib.Flush{Length: r.Uint32N(1 << 31), Type: wr.Flush.Type, Level: ib.FlushRegion}
	}
	return true
}

// spoil makes a request invalid in a way that its status must show.
func (o *op) spoil(r *rand.Rand) {
	remote, wr := o.end.reliable, &o.wr
	switch {
	case o.isLocal():
		o.misbind(r)
	case o.code == ib.WRSendWithInv:
		o.bad = badRKey
		wr.InvRKey ^= 1 << r.IntN(8)
	case o.grant != nil && (o.length > 0 || o.code == ib.WRFlush) && r.IntN(2) == 0 && o.takeWrongKey(r):
	case o.grant != nil && r.IntN(2) == 0 && o.exceedWindow(r):
	case o.queue != nil && r.IntN(4) == 0:
		o.misdirect(r)
	case o.code == ib.WRFlush:
		if o.wr.Flush.Level == ib.FlushRegion || o.wr.Flush.Length > 0 {
			o.bad = badRKey
			wr.RKey ^= 0x5a5a5a5a
		}
	case remote && o.word != nil && r.IntN(2) == 0:
		o.bad = unaligned
		wr.RemoteAddr += 1 + r.Uint64N(7)
	case remote && (o.target != nil && o.length > 0 || o.word != nil) && r.IntN(2) == 0:
		o.bad = badRKey
		switch r.IntN(4) {
		case 0:
			wr.RKey ^= 0x5a5a5a5a
		case 1:
			wr.RKey ^= 1 << r.IntN(8) // the part that is not the index
		default:
			o.bad, wr.RemoteAddr = outOfRange, o.outside(r)
		}
	case len(wr.SGList) > 0 && o.length > 0:
		o.bad = badLKey
		for i := range wr.SGList {
			wr.SGList[i].LKey ^= 0xa5a5a5a5
		}
	}
	o.signaled = o.signaled || o.bad != flawless
}

// outside returns an address at which a request is not completely inside the
// peer's region: far away, past its end, or past the end of the address space.
func (o *op) outside(r *rand.Rand) uint64 {
	over := uint64(8) // of an atomic, whose address stays aligned
	if o.word == nil {
		over = 1 + r.Uint64N(uint64(o.length))
	}
	switch a := &o.end.peer.space.remote; r.IntN(3) {
	case 0:
		return o.wr.RemoteAddr | 0xffff_ffff_0000_0000
	case 1:
		return a.base() + a.len() - uint64(o.length) + over
	default:
		return -over
	}
}

// post posts a request and records it in the model.
func (e *end) post(o *op) {
	defer e.delays.begins(e.due())
	o.wr.WRID, o.wr.Opcode = o.id, o.code
	if o.signaled {
		o.wr.Flags |= ib.SendSignaled
	}
	if o.queue != nil && o.bad != noQueue {
		o.wr.RemoteSRQN = o.queue.srq.Num()
	}
	if _, err := e.qp.PostSend(o.wr); err != nil {
		if len(e.sq) < int(e.qp.Cap().MaxSendWR) {
			e.w.Fail("post", "adapter %d qp %v: %v with %d work requests in the queue", e.node.Index, e.num, err, len(e.sq))
		}
		o.drop()
		return
	}
	e.w.Posted++
	e.sq = append(e.sq, o)
	if e.pair == nil {
		return
	}
	o.space, o.spaceEra = e.peer.space, e.peer.space.era
	if e.reliable {
		if o.consumes() {
			e.peer.inbox = append(e.peer.inbox, o)
		}
		if o.writes() && o.bad == flawless {
			o.target.writers = append(o.target.writers, writer{o, o.data})
		}
		if o.word != nil && (o.bad == flawless || o.bad == badLKey && o.destination != nil) { // it is executed, but its result cannot be stored
			o.word.pending = append(o.word.pending, o)
		}
	}
}

// postRecv posts a receive of n bytes.
func (e *end) postRecv(n int, bad bool) bool {
	s := e.space
	switch {
	case e.srq != nil:
		return e.srq.post(e.w, n)
	case !e.receives:
		return false
	}
	if len(e.rq) >= int(e.qp.Cap().MaxRecvWR) {
		return false
	}
	l := s.local.free(localSlots, len(s.local.slots))
	if l == nil {
		return false
	}
	v := &receive{id: e.w.nextID(true), slot: l, size: n, bad: bad}
	if !e.reliable {
		clear(l.bytes()) // the first bytes identify the message
		clear(l.model())
	}
	l.owner, l.hot = v.id, true
	wr := ib.RecvWR{WRID: v.id, SGList: pieces(l, n, 1+int(v.id>>1)%2)}
	if bad {
		e.badRecv = true
		for i := range wr.SGList {
			wr.SGList[i].LKey ^= 0xa5a5a5a5
		}
	}
	if _, err := e.qp.PostRecv(wr); err != nil {
		e.w.Fail("post", "adapter %d qp %v: %v", e.node.Index, e.num, err)
		return false
	}
	e.rq = append(e.rq, v)
	return true
}

// localSlots is the number of slots of the local area for sends; the others are
// for receives.
const localSlots = 12

// post posts a receive of n bytes to the shared queue.
func (q *sharedQueue) post(w *world, n int) bool {
	v := &receive{id: w.nextID(true), queue: q, size: n, slot: q.free()}
	wr := ib.RecvWR{WRID: v.id, SGList: pieces(v.slot, n, 1)}
	if q.srq.PostRecv(&wr) != nil {
		return false // full
	}
	if q.cq != nil && q.posted[v.slot.owner] != nil { // a lost receive: there are slots for all others
		delete(q.posted, v.slot.owner)
		q.lost--
	}
	v.slot.accept() // an earlier dropped message may have written its start
	v.slot.owner, v.slot.hot = v.id, true
	q.posted[v.id] = v
	return true
}

// free returns the slot of the next receive: a free one, or else the one posted
// longest ago: a queue pair that was destroyed had taken it, so it will never
// complete.
func (q *sharedQueue) free() *slot {
	slots := q.space.local.slots
	oldest := &slots[0]
	for i := range slots {
		l := &slots[i]
		if q.posted[l.owner] == nil {
			return l
		}
		if l.owner < oldest.owner {
			oldest = l
		}
	}
	return oldest
}

// fillRecvs tops the receives up to n.
func (e *end) fillRecvs(n int) {
	if e.domain != nil {
		e.domain.fill(n)
		e.node.wake(nil)
		return
	}
	for k := len(e.rq); k < n; k++ {
		size := e.w.plan.slot
		if e.pair == nil {
			size += grhRoom
		}
		if !e.postRecv(size, false) {
			break
		}
	}
	e.node.wake(e)
}
