package sim

import (
	"math/rand/v2"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/memory"
)

// With the feature windows, the ends of RC connections give their peers memory windows of type 2.
// An end binds its window by a work request, and its peer gets the key when this is complete. The
// end, by LOCAL_INV, or the peer, by a SEND with invalidate, invalidates the key, and the end binds
// the window again under the next tag. In the meantime, requests may name this key, or a dead one.

// binding is a memory window of type 2 on the remote area of a space.
type binding struct {
	e     *end
	s     *space
	mw    *memory.Window
	grant *grant // the key that the peer has; nil: none
	// changing is a bind or an invalidation in progress.
	changing *op
	leaving  bool      // the peer has posted a SEND that invalidates the key, and no longer names it
	dead     []ib.RKey // keys that were valid before
}

// grant is a valid key, or one that has died.
type grant struct {
	key       ib.RKey
	slots     int // number of the area's slots that the window covers
	zeroBased bool
	ending    bool // a LOCAL_INV of the key is posted
	dead      bool
}

// mostDead is the maximum number of dead keys that are remembered. It is less than the number of tags,
// so these keys stay invalid.
const mostDead = 16

// open allocates the window.
func (b *binding) open() {
	mw, err := b.s.pd.AllocMW(ib.MWType2)
	b.s.w.Must(err)
	b.mw, b.grant, b.changing = mw, nil, nil
}

// close deallocates the window, in any state.
func (b *binding) close(why string) {
	b.ends(why)
	b.s.w.Must(b.s.pd.DeallocMW(b.mw))
	b.mw, b.changing, b.dead = nil, nil, nil
}

// ends notes that the key is dead. Requests with it have no effect on memory from now on.
func (b *binding) ends(why string) {
	g := b.grant
	if g == nil {
		return
	}
	b.spoilsAnswers(g)
	if b.e.peer != nil && g.namedBy(b.e.peer) {
		b.s.w.Mark("M2 window died in use")
	}
	b.grant, b.leaving, g.dead = nil, false, true
	b.dead = append(b.dead, g.key)
	b.dead = b.dead[max(0, len(b.dead)-mostDead):]
	b.s.w.Mark("M2 window died")
	b.s.resolve(why)
}

// restart notes that the end has a new connection. The window stays bound. If a bind or invalidation
// was in progress, the state of the window is unknown, and the program allocates another window.
func (b *binding) restart() {
	if b == nil {
		return
	}
	b.leaving = false
	if b.grant != nil {
		b.grant.ending = false
	}
	if b.changing != nil {
		b.close("its state was unknown")
		b.open()
	}
}

// check compares the window with the model.
func (b *binding) check() {
	if b == nil || b.changing != nil {
		return
	}
	if b.mw.Bound() != (b.grant != nil) || b.grant != nil && b.mw.RKey() != b.grant.key {
		b.s.w.Fail("window", "adapter %d: the window with key %#x is bound: %v; the peer's key is %+v", b.s.node.Index, uint32(b.mw.RKey()), b.mw.Bound(), b.grant)
	}
}

// replaced deallocates the window, and so ends its key. It reports whether the region stays.
func (b *binding) replaced() bool {
	if b.grant != nil && b.s.pd.DeregMR(b.s.remote.mr) == nil {
		b.s.w.Fail("window", "adapter %d: a region was deregistered under its window", b.s.node.Index)
	}
	b.s.deaths++
	b.close("the window was deallocated")
	if b.s.deaths%2 == 0 {
		return false
	}
	b.open()
	return true
}

// manage draws a request that changes the window of the end or of its peer; nil for none.
func (e *end) manage(r *rand.Rand) *op {
	if !e.w.plan.on(windows) || e.typ() != ib.RC {
		return nil
	}
	own, peer := e.space.remote.binding, e.peer.space.remote.binding
	switch {
	case own.changing != nil:
		return nil
	case own.grant == nil:
		return own.bind(r)
	case r.IntN(16) == 0 && (e.w.plan.rough() || !own.grant.namedBy(e.peer)):
		return own.invalidate()
	case r.IntN(8) == 0 && peer.grant != nil && !peer.leaving && !peer.grant.ending:
		return e.makeSendWithInv(r)
	}
	return nil
}

// rough reports whether programs invalidate keys that are in use.
func (p *plan) rough() bool { return p.on(deregistration | badRequests | lifecycle) }

// namedBy reports whether a pending request of an end names the key.
func (g *grant) namedBy(e *end) bool {
	return slices.ContainsFunc(e.sq, func(o *op) bool { return o.grant == g })
}

// bind returns a bind of the window to the first slots of the remote area.
func (b *binding) bind(r *rand.Rand) *op {
	e, a := b.e, &b.s.remote
	g := &grant{key: b.mw.RKey().Inc(), slots: len(a.slots) - r.IntN(3), zeroBased: r.IntN(3) == 0}
	o := &op{end: e, id: e.w.nextID(false), code: ib.WRBindMW, signaled: true, binds: g, window: b.mw}
	last := &a.slots[g.slots-1]
	bind := &ib.MWBind{
		RKey: b.mw.RKey(), NewRKey: g.key, LKey: a.mr.LKey(), Addr: a.mr.Addr(), Length: uint64(last.off + last.size),
		Access: ib.AccessRemote | ib.AccessFlush,
	}
	if g.zeroBased {
		bind.Access |= ib.AccessZeroBased
	}
	if r.IntN(8) == 0 {
		o.wr.Flags |= ib.SendFence
	}
	o.wr.Bind, b.changing = bind, o
	return o
}

// invalidate returns a LOCAL_INV of the key that the end's peer has.
func (b *binding) invalidate() *op {
	o := &op{end: b.e, id: b.e.w.nextID(false), code: ib.WRLocalInv, signaled: true, window: b.mw}
	o.wr.InvRKey = b.grant.key
	b.changing, b.grant.ending = o, true
	return o
}

// makeSendWithInv returns a SEND that invalidates the key that the end has. It may have a fence:
// after the invalidation, the peer could not repeat its answers to READs with the key.
func (e *end) makeSendWithInv(r *rand.Rand) *op {
	b := e.peer.space.remote.binding
	o := &op{end: e, id: e.w.nextID(false), code: ib.WRSendWithInv, signaled: true, grant: b.grant}
	if !o.makeData(r) {
		o.drop()
		return nil
	}
	o.wr.InvRKey, b.leaving = b.grant.key, true
	if !e.w.plan.rough() || r.IntN(2) == 0 {
		o.wr.Flags |= ib.SendFence
	}
	return o
}

// usable reports whether the end's peer may name the key.
func (b *binding) usable() bool {
	return b == nil || b.grant != nil && !b.leaving && (!b.grant.ending || b.e.w.plan.rough())
}

// isLocal reports whether the request sends no packets.
func (o *op) isLocal() bool { return o.code == ib.WRBindMW || o.code == ib.WRLocalInv }

// misbind makes a bind or an invalidation invalid.
func (o *op) misbind(r *rand.Rand) {
	o.end.w.Mark("M2 wrong bind")
	o.bad = badBind
	b := o.end.space.remote.binding
	switch bind := o.wr.Bind; {
	case bind == nil && len(b.dead) > 0:
		o.wr.InvRKey = b.dead[r.IntN(len(b.dead))]
	case bind == nil:
		o.wr.InvRKey ^= 0x5a5a5a00
	case r.IntN(3) == 0:
		bind.LKey ^= 0xa5a5a5a5
	case r.IntN(2) == 0:
		bind.Length = b.s.remote.mr.Len() + 1
	default:
		bind.Access |= ib.AccessMWBind
	}
}

// bindAgain returns a bind of the window while it is bound, nil if it is not.
func (b *binding) bindAgain(r *rand.Rand) *op {
	if b == nil || b.grant == nil || b.changing != nil || b.leaving || b.grant.ending {
		return nil
	}
	o := b.bind(r)
	b.changing, b.leaving, o.bad = nil, true, badBind
	b.e.w.Mark("M2 bound window bound again")
	return o
}

// executed applies a bind or an invalidation that succeeded.
func (b *binding) executed(o *op) {
	if b.mw != o.window { // the window was replaced meanwhile
		return
	}
	b.changing = nil
	if o.code == ib.WRLocalInv {
		b.e.w.Mark("M2 LOCAL_INV")
		b.ends("its key was invalidated by its own end")
	} else {
		b.e.w.Mark("M2 window bound")
		b.grant = o.binds
	}
	b.check()
}

// refused forgets a bind or an invalidation that was not executed.
func (b *binding) refused(o *op) {
	if b.changing == o && o.code == ib.WRLocalInv {
		b.changing = nil
	}
}

// invalidated applies a SEND with invalidate that has arrived at the end.
func (b *binding) invalidated(o *op) {
	e := b.e
	if b.grant != o.grant {
		e.w.Fail("window", "adapter %d qp %v: wr_id %d invalidates the key %#x, which is not valid", e.node.Index, e.num, o.id, uint32(o.wr.InvRKey))
		return
	}
	if b.changing != nil && b.changing.code == ib.WRLocalInv {
		b.changing.bad = badBind // the LOCAL_INV comes too late
	}
	e.w.Mark("M2 SEND with invalidate")
	b.ends("its key was invalidated by the peer")
	b.check()
}

// spoilsAnswers notes that the answers to READs with a key cannot be repeated.
func (b *binding) spoilsAnswers(g *grant) {
	if e := b.e; e.peer != nil && slices.ContainsFunc(e.peer.sq, func(o *op) bool { return o.grant == g && o.code == ib.WRRDMARead }) {
		e.remGone = true
	}
}

// takeWrongKey makes a request name a key that gives it no access: a dead key, or the key of a window
// of another queue pair. It reports whether there is one.
func (o *op) takeWrongKey(r *rand.Rand) bool {
	peer := o.end.peer
	if dead := peer.space.remote.binding.dead; len(dead) > 0 && r.IntN(2) == 0 {
		o.end.w.Mark("M2 dead key")
		o.bad, o.wr.RKey = badRKey, dead[r.IntN(len(dead))]
		return true
	}
	for _, e := range sorted(peer.node.ends) {
		if b := e.space.remote.binding; e != peer && b != nil && b.grant != nil {
			o.end.w.Mark("M2 key of another queue pair")
			o.bad, o.wr.RKey = badRKey, b.grant.key
			o.wr.RemoteAddr += e.space.remote.base() - peer.space.remote.base() // the address of the same slot there
			return true
		}
	}
	return false
}

// exceedWindow makes a request reach beyond the window, but not beyond its region. It reports whether
// the region extends beyond the window.
func (o *op) exceedWindow(r *rand.Rand) bool {
	a := &o.end.peer.space.remote
	if o.word != nil || o.length == 0 || o.grant.slots == len(a.slots) {
		return false
	}
	o.end.w.Mark("M2 beyond the window")
	o.bad, o.wr.RemoteAddr = outOfRange, a.base()+a.len()-uint64(o.length)+1+r.Uint64N(guard)
	return true
}
