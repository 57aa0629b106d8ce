package memory

import (
	"fmt"

	"github.com/softhca/softhca/ib"
)

// denial is a refused access, with what is needed to explain it.
type denial struct {
	pd      PD
	key     uint32
	addr, n uint64
	need    ib.Access
}

// deny notes an access that is refused with f, and returns f. FaultNone is no refusal.
func (t *Table) deny(d denial, f Fault) Fault {
	if f != FaultNone {
		t.denial, t.denied = d, f
	}
	return f
}

// Denied returns the key of the newest refused access, 0 if it had none. It is called before Why.
func (t *Table) Denied() uint32 {
	if t.denied == FaultNone {
		return 0
	}
	return t.denial.key
}

// Why explains the fault of the newest refused access: with the key, and with the bounds or the
// rights that it goes beyond. It is called once, right after the access.
func (t *Table) Why(f Fault) string {
	d, denied := t.denial, t.denied
	t.denied = FaultNone
	if denied != f || d.key == 0 || f == FaultNone {
		return f.String()
	}
	e := t.keys.resolve(d.key)
	switch f {
	case FaultKey:
		return t.noKey(d.key, e)
	case FaultRange:
		return d.beyond(e)
	case FaultAccess:
		if d.need == 0 {
			return fmt.Sprintf("%s was not registered as one that can be invalidated", e.name(d.key))
		}
		return fmt.Sprintf("%s has the rights %v, and the access needs %v", e.name(d.key), e.access(), d.need)
	case FaultPD:
		return fmt.Sprintf("%s belongs to protection domain %d, the queue pair to %d", e.name(d.key), e.pd(), d.pd)
	default:
		return fmt.Sprintf("%s: %v", e.name(d.key), f)
	}
}

// noKey explains that no object has a key.
func (t *Table) noKey(key uint32, e entry) string {
	switch s := t.keys.find(key); {
	case e.kind == kindRegion:
		return e.name(key) + " has no remote rights"
	case s.key == 0:
		return fmt.Sprintf("no region or window has the key %#x", key)
	case s.kind == kindNone:
		return fmt.Sprintf("the region or window with the key %#x no longer exists", key)
	default:
		return fmt.Sprintf("no region or window has the key %#x any more: its key is now %#x", key, s.key)
	}
}

// beyond explains that an access goes beyond an object.
func (d *denial) beyond(e entry) string {
	x := e.extent()
	size := uint64(len(x.buf))
	what := fmt.Sprintf("%s at %#x", inBytes(d.n), d.addr)
	has := fmt.Sprintf("%s, which has %s at %#x", e.name(d.key), inBytes(size), x.iova)
	switch off := d.addr - x.iova; {
	case d.addr >= x.iova && off < size:
		return fmt.Sprintf("%s end %s beyond %s", what, inBytes(d.n-(size-off)), has)
	case d.addr < x.iova && x.iova-d.addr < d.n:
		return fmt.Sprintf("%s begin %s before %s", what, inBytes(x.iova-d.addr), has)
	default:
		return fmt.Sprintf("%s are outside of %s", what, has)
	}
}

// inBytes returns a number of bytes in words.
func inBytes(n uint64) string {
	if n == 1 {
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes", n)
}

// name names the object with a key.
func (e entry) name(key uint32) string {
	switch {
	case e.kind == kindWindow:
		return fmt.Sprintf("window %#x", key)
	case e.kind == kindRegion && e.region.by != "":
		return fmt.Sprintf("region %#x (registered by %s)", key, e.region.by)
	default:
		return fmt.Sprintf("region %#x", key)
	}
}

// extent returns the memory of an object.
func (e entry) extent() *extent {
	switch e.kind {
	case kindRegion:
		return &e.region.extent
	case kindWindow:
		return &e.window.extent
	default:
		return new(extent)
	}
}

// access returns the rights of an object.
func (e entry) access() ib.Access {
	switch e.kind {
	case kindRegion:
		return e.region.access
	case kindWindow:
		return e.window.access
	default:
		return 0
	}
}

// pd returns the protection domain of an object.
func (e entry) pd() PD {
	switch e.kind {
	case kindRegion:
		return e.region.pd
	case kindWindow:
		return e.window.pd
	default:
		return 0
	}
}
