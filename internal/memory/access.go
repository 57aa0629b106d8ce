package memory

import "github.com/softhca/softhca/ib"

// allowed checks an access except for its range.
func (r *Region) allowed(pd PD, need ib.Access) Fault {
	switch {
	case r == nil:
		return FaultKey
	case r.invalidated:
		return FaultInvalidated
	case r.pd != pd:
		return FaultPD
	case r.access&need != need:
		return FaultAccess
	}
	return FaultNone
}

// Local returns a view of n bytes at addr of the region with the local key.
// need is 0 for reading, ib.AccessLocalWrite for writing. For n of 0 it checks
// nothing: a zero-length element names no memory. The view is valid until the
// region is deregistered; Local allocates nothing.
func (t *Table) Local(pd PD, key ib.LKey, addr, n uint64, need ib.Access) ([]byte, Fault) {
	if n == 0 {
		return nil, FaultNone
	}
	r := t.keys.region(uint32(key))
	f := r.allowed(pd, need)
	if f == FaultNone {
		b, ok := r.view(addr, n)
		if !ok {
			b, f = r.unbuffered(addr, n, need)
		}
		if f == FaultNone {
			t.wrote(b, need)
			return b, FaultNone
		}
	}
	return nil, t.deny(denial{pd, uint32(key), addr, n, need}, f)
}

// Remote returns a view of n bytes at addr of the region or window with the
// remote key, for a peer that needs the given remote rights. For no bytes it
// looks at nothing (E13). Which addresses an operation may name is its caller's to
// check (E17). The view is valid until the region is deregistered, or the window
// dies; Remote allocates nothing.
func (t *Table) Remote(via Via, key ib.RKey, addr, n uint64, need ib.Access) ([]byte, Fault) {
	if n == 0 {
		return nil, FaultNone
	}
	x, r, f := t.remote(via, key, need)
	if f == FaultNone {
		b, ok := x.view(addr, n)
		switch {
		case ok:
			t.wrote(b, need)
			return b, FaultNone
		case r == nil:
			f = FaultRange
		default:
			b, f = r.unbuffered(addr, n, need)
		}
		if f == FaultNone {
			t.wrote(b, need)
			return b, FaultNone
		}
	}
	return nil, t.deny(denial{via.PD, uint32(key), addr, n, need}, f)
}

// RemoteRegion returns a view of the whole region or window with the remote key, and is otherwise
// like Remote.
func (t *Table) RemoteRegion(via Via, key ib.RKey, need ib.Access) ([]byte, Fault) {
	x, _, f := t.remote(via, key, need)
	if f != FaultNone {
		return nil, t.deny(denial{pd: via.PD, key: uint32(key), need: need}, f)
	}
	return x.buf, FaultNone
}

// remote returns what a remote key stands for, and the region if it is the key of one. A region
// without remote rights has no RKey.
func (t *Table) remote(via Via, key ib.RKey, need ib.Access) (*extent, *Region, Fault) {
	switch e := t.keys.resolve(uint32(key)); {
	case e.kind == kindWindow:
		return &e.window.extent, nil, e.window.allowed(via, need)
	case e.kind == kindRegion && e.region.access&accessPeer != 0:
		return &e.region.extent, e.region, e.region.allowed(via.PD, need)
	}
	return nil, nil, FaultKey
}

// Gather fills dst with the bytes that begin at byte off of the list. Gather
// skips empty elements without checking their keys; of the others it checks
// only the copied part, as Soft-RoCE does. It returns FaultRange if the list is
// too short. After a fault, dst may be partly written. It allocates nothing and
// retains neither slice.
func (t *Table) Gather(dst []byte, pd PD, sges []ib.SGE, off uint64) Fault {
	for i := 0; len(dst) > 0; i++ {
		if i == len(sges) {
			return t.deny(denial{}, FaultRange)
		}
		part, f := t.part(pd, &sges[i], span{off, uint64(len(dst)), 0})
		if f != FaultNone {
			return f
		}
		off -= min(off, uint64(sges[i].Length))
		if f := t.Touch(func() { copy(dst, part) }); f != FaultNone {
			return f
		}
		dst = dst[len(part):]
	}
	return FaultNone
}

// Scatter writes src to the list from its byte off on. It needs LOCAL_WRITE
// and is otherwise like Gather: after a fault some of src may have been
// written.
func (t *Table) Scatter(src []byte, pd PD, sges []ib.SGE, off uint64) Fault {
	for i := 0; len(src) > 0; i++ {
		if i == len(sges) {
			return t.deny(denial{}, FaultRange)
		}
		part, f := t.part(pd, &sges[i], span{off, uint64(len(src)), ib.AccessLocalWrite})
		if f != FaultNone {
			return f
		}
		off -= min(off, uint64(sges[i].Length))
		if f := t.Put(part, src); f != FaultNone {
			return f
		}
		src = src[len(part):]
	}
	return FaultNone
}

// span is a request for up to n bytes at byte off, with rights.
type span struct {
	off, n uint64
	need   ib.Access
}

// part returns the part of an element that belongs to a span; nothing if the
// span starts after it.
func (t *Table) part(pd PD, e *ib.SGE, s span) ([]byte, Fault) {
	if s.off >= uint64(e.Length) {
		return nil, FaultNone
	}
	addr := e.Addr + s.off
	if addr < s.off {
		return nil, t.deny(denial{}, FaultRange)
	}
	return t.Local(pd, e.LKey, addr, min(s.n, uint64(e.Length)-s.off), s.need)
}

// TotalLength returns the number of bytes of a list.
func TotalLength(sges []ib.SGE) uint64 {
	var n uint64
	for i := range sges {
		n += uint64(sges[i].Length)
	}
	return n
}

// Invalidate invalidates the region or window with the remote key, for SEND with
// invalidate and LOCAL_INV. A region's keys then return FaultInvalidated; a window
// of type 2 is unbound. It fails with FaultAccess for a region that was not registered as
// invalidatable, with FaultBound for a region with windows, with FaultType for a window
// of type 1, with FaultUnbound for an unbound window, with FaultPD for an object of another
// protection domain, and with FaultQP for a window of another queue pair. It then changes nothing.
func (t *Table) Invalidate(via Via, key ib.RKey) Fault {
	f := FaultKey
	switch e := t.keys.resolve(uint32(key)); {
	case e.kind == kindWindow:
		f = t.invalidateWindow(via, e.window)
	case e.kind == kindRegion && e.region.access&accessPeer != 0:
		f = e.region.invalidate(via.PD)
	}
	return t.deny(denial{pd: via.PD, key: uint32(key)}, f)
}

func (r *Region) invalidate(pd PD) Fault {
	f := r.allowed(pd, 0)
	switch {
	case f != FaultNone:
		return f
	case !r.invalidatable:
		return FaultAccess
	case r.windows != 0:
		return FaultBound
	}
	r.invalidated = true
	return FaultNone
}
