package memory

import (
	"fmt"

	"github.com/softhca/softhca/ib"
)

// Table holds the regions and windows of an adapter. It is not safe for
// concurrent use.
type Table struct {
	keys    keys
	max     Limits
	live    int
	windows int
	bound   map[Serial]*Window // of type 2, the first of each queue pair's list
	foreign bool               // a region is, or was, foreign
	denial  denial             // newest refused access, for Why
	denied  Fault              // its fault; FaultNone: it was explained
	writes  *WriteLog          // nil: writes are not logged

	disorder *disorder // nil: payload is written in the order of its bytes
}

// Limits are the most regions and windows of a table.
type Limits struct{ Regions, Windows int }

// NewTable returns a table with limits, of which none is more than 2^21.
// rand is the source of the keys: a peer that can predict it can guess keys.
func NewTable(rand func() uint32, max Limits) *Table {
	t := &Table{
		keys:  keys{rand: rand},
		max:   Limits{min(max.Regions, maxObjects), min(max.Windows, maxObjects)},
		bound: make(map[Serial]*Window),
	}
	t.keys.grow()
	return t
}

// Len returns the number of regions.
func (t *Table) Len() int { return t.live }

// Register makes memory accessible under a new key. A region without bytes is
// legal. It fails with EINVAL for a missing protection domain, for REMOTE_WRITE
// or REMOTE_ATOMIC without LOCAL_WRITE, for FLUSH_PERSISTENT to memory that is
// not durable, for an address with ZERO_BASED, for a range that wraps, for an
// implicit region without ON_DEMAND, and for remote rights of a null region;
// with EOPNOTSUPP for unknown or unsupported rights; with ENOMEM when the table
// is full.
func (t *Table) Register(c RegionConfig) (*Region, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("register region: %w", err)
	}
	if t.live >= t.max.Regions {
		return nil, fmt.Errorf("register region: the adapter has %d already: %w", t.live, ib.ENOMEM)
	}
	r := &Region{
		extent: extent{c.Buf, c.start()}, pd: c.PD, form: c.Form,
		access: c.Access, invalidatable: c.Invalidatable, durable: c.Durable, by: c.By,
	}
	if c.Form == FormNull {
		r.null = new(nullMemory)
	}
	t.foreign = t.foreign || c.foreign()
	if r.key = t.keys.add(entry{kind: kindRegion, region: r}); r.key == 0 {
		return nil, fmt.Errorf("register region: no free key: %w", ib.ENOMEM)
	}
	t.live++
	return r, nil
}

// Deregister removes a region. Its key becomes invalid, and its upper 24 bits
// are not reused for the next 4096 keys. EINVAL if windows are bound to r, or if it is
// not in this table (any more).
func (t *Table) Deregister(r *Region) error {
	if !t.owns(r) {
		return fmt.Errorf("deregister region: not registered: %w", ib.EINVAL)
	}
	if r.windows != 0 {
		return fmt.Errorf("deregister region: %w", r.errBound())
	}
	t.keys.retire(r.key)
	t.live--
	return nil
}

// Change selects the properties that Reregister changes.
type Change = ib.ReregFlags

// The changes.
const (
	ChangeTranslation = ib.ReregTranslation // Form, Buf and IOVA
	ChangePD          = ib.ReregPD
	ChangeAccess      = ib.ReregAccess
)

// Reregister changes the properties of a region that what selects to those of
// c; Invalidatable does not change. A new protection domain or new rights keep
// the keys, as with Soft-RoCE (the RKey exists while there are remote rights).
// A new translation gives the region a new key, so that a peer with the old one
// cannot reach the new memory. Only a new translation makes an invalidated
// region usable again. A region with windows does not change.
//
// It fails as Register does, and with EINVAL when r is not of this table, when
// windows are bound to it, when what is empty, when ZERO_BASED changes without
// the translation, for an invalidated region without a new translation, and for
// a null region, which never changes into or out of another form; with
// EOPNOTSUPP for a change that does not exist. A failed call changes nothing.
func (t *Table) Reregister(r *Region, what Change, c RegionConfig) error {
	if err := t.reregister(r, what, c); err != nil {
		return fmt.Errorf("reregister region: %w", err)
	}
	return nil
}

func (t *Table) reregister(r *Region, what Change, c RegionConfig) error {
	translate := what&ChangeTranslation != 0
	switch {
	case !t.owns(r):
		return fmt.Errorf("not registered: %w", ib.EINVAL)
	case r.windows != 0:
		return r.errBound()
	case what == 0:
		return fmt.Errorf("nothing to change: %w", ib.EINVAL)
	case what&^(ChangeTranslation|ChangePD|ChangeAccess) != 0:
		return fmt.Errorf("change %#x: %w", uint8(what), ib.EOPNOTSUPP)
	case r.invalidated && !translate:
		return fmt.Errorf("invalidated, and no new translation: %w", ib.EINVAL)
	case r.form == FormNull || translate && c.Form == FormNull:
		return fmt.Errorf("no memory: %w", ib.EINVAL)
	}
	if what&ChangePD == 0 {
		c.PD = r.pd
	}
	if what&ChangeAccess == 0 {
		c.Access = r.access
	}
	if !translate {
		if (c.Access^r.access)&ib.AccessZeroBased != 0 {
			return fmt.Errorf("ZERO_BASED changes without a new translation: %w", ib.EINVAL)
		}
		c.Form, c.Buf, c.IOVA, c.HasIOVA, c.Durable = r.form, r.buf, r.iova, true, c.Durable || r.durable
	}
	if err := c.check(); err != nil {
		return err
	}
	if translate {
		key := t.keys.add(entry{kind: kindRegion, region: r})
		if key == 0 {
			return fmt.Errorf("no free key: %w", ib.ENOMEM)
		}
		t.keys.retire(r.key)
		t.foreign = t.foreign || c.foreign()
		r.key, r.form, r.buf, r.iova, r.invalidated = key, c.Form, c.Buf, c.start(), false
		r.by = c.By
	}
	r.pd, r.access, r.durable = c.PD, c.Access, c.Durable
	return nil
}

// errBound is the error of a change that bound windows forbid.
func (r *Region) errBound() error {
	return fmt.Errorf("memory windows are bound to it, %d: %w", r.windows, ib.EINVAL)
}

// owns reports whether r is registered here.
func (t *Table) owns(r *Region) bool { return r != nil && t.keys.region(r.key) == r }
