package memory

import (
	"fmt"
	"sync/atomic"

	"github.com/softhca/softhca/ib"
)

// Serial tells queue pairs apart for the life of an adapter, unlike their numbers, which are
// reused. Zero is none.
type Serial uint64

// Via is where an access comes from: the protection domain of a queue pair, and
// which one it is.
type Via struct {
	PD PD
	QP Serial
}

// Window is a memory window. While it is bound, its key gives peers rights to a
// part of a region, whatever the rights of the region. It changes only through its table.
type Window struct {
	extent         // while it is bound
	region *Region // nil: it is not bound
	key    atomic.Uint32
	pd     PD
	access ib.Access
	typ    ib.MWType

	qp         Serial // type 2, bound: the queue pair that it was bound on
	next, prev *Window

	Tracked // the adapter gives the row; binding changes it
}

// report writes what the window is bound to.
func (w *Window) report() {
	w.TrackInfo.Length, w.TrackInfo.Access = uint64(len(w.buf)), uint32(w.access)
	w.Retrack()
}

// RKey returns the present key. Any goroutine may call it.
func (w *Window) RKey() ib.RKey { return ib.RKey(w.key.Load()) }

// Type returns the type.
func (w *Window) Type() ib.MWType { return w.typ }

// Bound reports whether the window is bound to a region.
func (w *Window) Bound() bool { return w.region != nil }

// allowed checks an access of a peer except for its range.
func (w *Window) allowed(via Via, need ib.Access) Fault {
	switch {
	case w.region == nil:
		return FaultUnbound
	case w.pd != via.PD:
		return FaultPD
	case w.typ == ib.MWType2 && w.qp != via.QP:
		return FaultQP
	case w.access&need != need:
		return FaultAccess
	}
	return FaultNone
}

// AllocWindow returns a new window, which is not bound, under a new key. EINVAL
// for a missing protection domain or type; ENOMEM when the table is full.
func (t *Table) AllocWindow(pd PD, typ ib.MWType) (*Window, error) {
	switch {
	case pd == 0:
		return nil, fmt.Errorf("allocate window: no protection domain: %w", ib.EINVAL)
	case !typ.Valid():
		return nil, fmt.Errorf("allocate window: %v: %w", typ, ib.EINVAL)
	case t.windows >= t.max.Windows:
		return nil, fmt.Errorf("allocate window: the adapter has %d already: %w", t.windows, ib.ENOMEM)
	}
	w := &Window{pd: pd, typ: typ}
	key := t.keys.add(entry{kind: kindWindow, window: w})
	if key == 0 {
		return nil, fmt.Errorf("allocate window: no free key: %w", ib.ENOMEM)
	}
	w.key.Store(key)
	t.windows++
	return w, nil
}

// DeallocWindow unbinds a window and removes it; its key becomes invalid as that
// of a region does. EINVAL if w is not in this table (any more).
func (t *Table) DeallocWindow(w *Window) error {
	if w == nil || t.keys.window(w.key.Load()) != w {
		return fmt.Errorf("deallocate window: not allocated: %w", ib.EINVAL)
	}
	t.unbind(w)
	t.keys.retire(w.key.Load())
	t.windows--
	return nil
}

// Windows returns the number of windows.
func (t *Table) Windows() int { return t.windows }

// windowAccess are the rights that a window can give, and the flags that it ignores: programs set
// LOCAL_WRITE, as for regions.
const windowAccess = accessPeer | ib.AccessZeroBased | ib.AccessLocalWrite | accessHints&^ib.AccessOnDemand

// Bind binds a window for a queue pair, and gives its key the tag of b.NewRKey. The tag of b.RKey
// does not matter: after a bind that failed, a program need not know the present one. A window of
// type 1 that is bound gives up its old memory; with no bytes it is only unbound. Bind fails with
// FaultKey if the window or the region does not exist, or the new tag is the present one; with
// FaultInvalidated, FaultPD and FaultRange as an access to the region does, and with
// FaultRange for a window of type 2 without bytes; with FaultBound for a window of type 2 that is
// bound; with FaultType for a zero-based window of type 1; with FaultAccess for rights
// that windows do not have, a region without MW_BIND or with ZERO_BASED, and remote writes to a
// region without LOCAL_WRITE, and FLUSH_PERSISTENT to a region that is not durable. It then changes nothing.
func (t *Table) Bind(via Via, b *ib.MWBind) Fault {
	w := t.keys.window(uint32(b.RKey))
	if f := w.bindable(via, b); f != FaultNone {
		return f
	}
	var r *Region
	var x extent
	if b.Length != 0 {
		var f Fault
		r = t.keys.region(uint32(b.LKey))
		if x, f = r.part(via.PD, b); f != FaultNone {
			return f
		}
	}
	t.unbind(w)
	w.key.Store(t.keys.retag(w.key.Load(), b.NewRKey))
	if r == nil {
		return FaultNone
	}
	r.windows++
	w.region, w.extent, w.access = r, x, b.Access
	w.report()
	if w.typ == ib.MWType2 {
		t.link(w, via.QP)
	}
	return FaultNone
}

// bindable checks the part of a bind that concerns the window.
func (w *Window) bindable(via Via, b *ib.MWBind) Fault {
	switch {
	case w == nil || w.RKey().Tagged(b.NewRKey) == w.RKey():
		return FaultKey
	case w.typ == ib.MWType2 && w.region != nil:
		return FaultBound
	case w.typ == ib.MWType1 && b.Access&ib.AccessZeroBased != 0:
		return FaultType
	case w.pd != via.PD:
		return FaultPD
	case b.Access&^windowAccess != 0:
		return FaultAccess
	case w.typ == ib.MWType2 && b.Length == 0:
		return FaultRange
	}
	return FaultNone
}

// part returns the part of a region that a window is bound to.
func (r *Region) part(pd PD, b *ib.MWBind) (extent, Fault) {
	f := r.allowed(pd, ib.AccessMWBind)
	switch {
	case f != FaultNone:
		return extent{}, f
	case r.access&ib.AccessZeroBased != 0, b.Access&accessWrites != 0 && r.access&ib.AccessLocalWrite == 0,
		b.Access&ib.AccessFlushPersistent != 0 && !r.durable:
		return extent{}, FaultAccess
	}
	buf, ok := r.view(b.Addr, b.Length)
	if !ok {
		return extent{}, FaultRange
	}
	if b.Access&ib.AccessZeroBased != 0 {
		return extent{buf, 0}, FaultNone
	}
	return extent{buf, b.Addr}, FaultNone
}

// invalidateWindow unbinds a window of type 2 at the request of a queue pair.
func (t *Table) invalidateWindow(via Via, w *Window) Fault {
	if w.typ != ib.MWType2 {
		return FaultType
	}
	f := w.allowed(via, 0)
	if f == FaultNone {
		t.unbind(w)
	}
	return f
}

// unbind ends the binding of a window, if it has one.
func (t *Table) unbind(w *Window) {
	if w.region == nil {
		return
	}
	w.region.windows--
	w.region, w.extent, w.access = nil, extent{}, 0
	w.report()
	if w.typ == ib.MWType2 {
		t.unlink(w)
	}
}

// Leave unbinds the windows of type 2 that were bound on a queue pair, which is destroyed.
func (t *Table) Leave(qp Serial) {
	for w := t.bound[qp]; w != nil; w = t.bound[qp] {
		t.unbind(w)
	}
}

// link adds a window to the list of its queue pair.
func (t *Table) link(w *Window, qp Serial) {
	w.qp, w.next, w.prev = qp, t.bound[qp], nil
	if w.next != nil {
		w.next.prev = w
	}
	t.bound[qp] = w
}

// unlink removes a window from the list of its queue pair.
func (t *Table) unlink(w *Window) {
	switch {
	case w.prev != nil:
		w.prev.next = w.next
	case w.next != nil:
		t.bound[w.qp] = w.next
	default:
		delete(t.bound, w.qp)
	}
	if w.next != nil {
		w.next.prev = w.prev
	}
	w.qp, w.next, w.prev = 0, nil, nil
}
