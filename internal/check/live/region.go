package live

import (
	"fmt"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/check/writes"
	"github.com/softhca/softhca/internal/memory"
)

// maxEnded is the maximum number of deregistered regions that the checker remembers.
const maxEnded = 1024

// Memory is what a region consists of.
type Memory uint8

// The kinds of memory.
const (
	Program  Memory = iota // memory of the program
	Foreign                // memory that Go does not manage, and that may be unmapped
	Implicit               // all memory of the process
	Other                  // device memory, or none
)

// RegionView has what the adapter knows of a region.
type RegionView struct {
	Key    ib.LKey
	Buf    []byte
	Addr   uint64 // of its first byte, for requests
	Access ib.Access
	PD     *Object
	DM     *Object // device memory; nil for other
	Memory Memory
}

// name returns the name of the region in findings. A new translation gives the region a new key, and a new name.
func (v *RegionView) name() string {
	return fmt.Sprintf("the memory region with lkey %#x", uint32(v.Key))
}

// Region is a memory region of the program.
type Region struct {
	Object
	now *registration // the lock of the checker guards it
}

// registration is a region as it was registered, or registered anew.
type registration struct {
	RegionView
	region *Region
	ended  *stack // nil while its key is valid
	since  uint64 // writes of adapters before it was registered
}

// regions are the regions of an adapter. The lock of the checker guards them.
type regions struct {
	byKey map[ib.LKey]*registration
	ended []*registration // the newest whose keys are not valid any more, oldest first
}

// begin adds a registration. An ended one with the same key is forgotten.
func (all *regions) begin(r *registration) {
	r.since = writes.Log().Count()
	if old := all.byKey[r.Key]; old != nil && old.ended != nil {
		all.ended = slices.DeleteFunc(all.ended, func(e *registration) bool { return e == old })
	}
	all.byKey[r.Key] = r
}

// end notes that a key is not valid from now on.
func (all *regions) end(r *registration, at *stack) {
	r.ended, r.Buf = at, nil // the program may free the memory
	if len(all.ended) == maxEnded {
		delete(all.byKey, all.ended[0].Key)
		all.ended = slices.Delete(all.ended, 0, 1)
	}
	all.ended = append(all.ended, r)
}

// Registered returns a new region.
func (c *Checker) Registered(v RegionView) *Region {
	if c == nil {
		return nil
	}
	r := new(Region)
	r.now = &registration{RegionView: v, region: r}
	c.make(&r.Object, "memory region", v.name(), v.PD, v.DM)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.regions.begin(r.now)
	return r
}

// Base returns the object of the region; nil for nil.
func (r *Region) Base() *Object {
	if r == nil {
		return nil
	}
	return &r.Object
}

// View returns what the region was when it was registered, or registered anew.
func (r *Region) View() RegionView {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	return r.now.RegionView
}

// Use is an unfinished request that uses a region which is about to go.
type Use struct{ user *request }

// Goes is called before the region is deregistered, or registered anew, and the adapter has settled. It looks
// for a request that uses the region.
func (r *Region) Goes() (u Use) {
	if r == nil {
		return u
	}
	c := r.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.qps {
		if o := q.unfinished(r.now); o != nil && (u.user == nil || o.index < u.user.index) {
			u.user = o
		}
	}
	if u.user != nil {
		u.user.told = true
	}
	return u
}

// Deregistered notes the outcome.
func (r *Region) Deregistered(err error, u Use) {
	if r == nil {
		return
	}
	at := r.c.sink.here()
	if err == nil {
		r.c.mu.Lock()
		r.went(u, "deregistered here", at)
		r.c.regions.end(r.now, at)
		r.c.mu.Unlock()
	}
	r.Destroyed(err, nil)
}

// Reregistered notes the outcome of registering the region anew, and what it now is.
func (r *Region) Reregistered(err error, v RegionView, u Use) {
	if r == nil {
		return
	}
	if err != nil {
		r.c.Used(&r.Object)
		return
	}
	at := r.c.sink.here()
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.went(u, "registered anew here", at) // with the key that the request has
	if v.Key == r.now.Key {
		r.now.RegionView = v
	} else {
		r.c.regions.end(r.now, at)
		r.now = &registration{RegionView: v, region: r}
		r.c.regions.begin(r.now)
	}
	r.name, r.uses = v.name(), slices.DeleteFunc([]*Object{v.PD, v.DM}, func(o *Object) bool { return o == nil })
}

// went notes that the region has gone although a request uses it. The lock is held.
func (r *Region) went(u Use, how string, at *stack) {
	if u.user == nil {
		return
	}
	calls := []call{{how, at}, {"posted here", u.user.posted}, {"registered here", r.made}}
	r.c.sink.add(found("region-deregistered-in-use", calls, "%s is in use: %s of %d bytes is not finished", r.name, article(u.user.operation()), u.user.length))
}

// at returns the memory of a range of the region. It reports false if the range is not in the region, or the
// region has no memory of the program.
func (r *registration) at(g *ib.SGE) (b []byte, ok bool) {
	switch r.Memory {
	case Implicit:
		b, err := memory.RawBuf(uintptr(g.Addr), uint64(g.Length))
		return b, err == nil
	case Program, Foreign:
		if off, n := g.Addr-r.Addr, uint64(len(r.Buf)); off <= n && uint64(g.Length) <= n-off {
			return r.Buf[off:][:g.Length], true
		}
	case Other:
	}
	return nil, false
}
