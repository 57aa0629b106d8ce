package ring

import (
	"fmt"
	"math/bits"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// CQ is a completion queue. Only the adapter's thread produces: it calls Push,
// Remove and Resize, of which only the last two wait for readers. Any thread
// may Poll and Arm, and so may a reader outside Go, which takes Header.Lock,
// takes entries while their Valid is as expected, stores Header.Cons, and
// releases the lock.
type CQ struct {
	hdr    *Header
	alloc  Allocator
	stride uintptr // bytes from one entry to the next: the size of a CQE or of a TimedCQE
	prod   uint32  // used by the adapter's thread only

	// Copies of Header.Cons and Header.Armed, for observers; never nil.
	consumed, armed *uint64

	// Resize changes these under the readers' lock; readers hold the lock, the
	// adapter's thread needs none to read. They are atomic because the race
	// detector does not know a lock in memory outside Go.
	base atomic.Pointer[CQE]
	mask atomic.Uint32
}

// Sizes of an entry, without and with its time.
const (
	cqeSize      = unsafe.Sizeof(CQE{})
	timedCQESize = unsafe.Sizeof(TimedCQE{})
)

// CQSize returns the capacity of a queue for n entries: the next number of the form
// 2^k-1, at least 1. Adapters keep one slot of a power of two free.
func CQSize(n uint32) uint32 { return 1<<bits.Len32(max(n, 1)) - 1 }

// CQBytes returns how much memory NewCQ allocates for the entries, without the header.
func CQBytes(n uint32, timed bool) int { return int(CQSize(n)+1) * int(cqeBytes(timed)) }

// cqeBytes returns the size of an entry.
func cqeBytes(timed bool) uintptr {
	if timed {
		return timedCQESize
	}
	return cqeSize
}

// NewCQ returns an empty completion queue for at least n entries (CQSize), whose entries are
// TimedCQEs if timed is set. ENOMEM or EINVAL if the allocator fails.
func NewCQ(a Allocator, n uint32, timed bool) (*CQ, error) {
	p, err := a.get(HeaderSize)
	if err != nil {
		return nil, err
	}
	c := &CQ{hdr: (*Header)(p), alloc: a, stride: cqeBytes(timed), consumed: new(uint64), armed: new(uint64)}
	if err := c.place(CQSize(n) + 1); err != nil {
		a.put(p, HeaderSize)
		return nil, err
	}
	return c, nil
}

// place allocates memory of n slots for the queue, a power of two.
func (c *CQ) place(n uint32) error {
	base, err := c.alloc.get(int(n) * int(c.stride))
	if err != nil {
		return err
	}
	c.base.Store((*CQE)(base))
	c.mask.Store(n - 1)
	// In zeroed memory the entry would look like valid index 2^32-1. This value
	// is that of an index already consumed, or still waiting.
	c.entry(n - 1).Valid.Store(c.prod)
	c.hdr.Mask, c.hdr.Stride, c.hdr.Entries = n-1, uint32(c.stride), uint64(uintptr(base))
	return nil
}

// Free frees the memory. No method may be called afterwards.
func (c *CQ) Free() {
	c.alloc.put(unsafe.Pointer(c.base.Load()), int(c.mask.Load()+1)*int(c.stride))
	c.alloc.put(unsafe.Pointer(c.hdr), HeaderSize)
}

// Mirror has readers copy the number of completions that they took, and whether the queue is
// armed, to two words. Readers outside Go do so only if the words are in memory that does not move
// (fixed), which stays mapped until Unmirror. The queue is new.
func (c *CQ) Mirror(consumed, armed *uint64, fixed bool) {
	c.consumed, c.armed = consumed, armed
	if fixed {
		c.hdr.Mirror.Store(uint64(uintptr(unsafe.Pointer(consumed))))
	}
}

// Unmirror has readers outside Go copy nothing any more. Readers in Go, which may still wait for the
// queue while it is destroyed, keep the words.
func (c *CQ) Unmirror() { c.hdr.Mirror.Store(0) }

// setCons ends a reader's turn, in which it took all entries before index cons. The caller holds
// the readers' lock.
func (c *CQ) setCons(cons uint32) {
	storeMirror(c.consumed, uint64(cons))
	c.hdr.Cons.Store(cons)
}

// Header returns the header at the start of the queue's memory.
func (c *CQ) Header() *Header { return c.hdr }

// Pending returns the number of waiting entries.
func (c *CQ) Pending() int { return int(c.hdr.Prod.Load() - c.hdr.Cons.Load()) }

// Cap returns the maximum number of waiting entries.
func (c *CQ) Cap() uint32 {
	c.lock()
	defer c.unlock()
	return c.mask.Load()
}

// lock makes the caller the only reader. A reader holds the lock only while it
// copies entries, so lock spins.
func (c *CQ) lock() {
	for !c.hdr.Lock.CompareAndSwap(0, 1) {
		runtime.Gosched()
	}
}

func (c *CQ) unlock() { c.hdr.Lock.Store(0) }

func (c *CQ) entry(i uint32) *CQE { return c.cqe(c.base.Load(), i&c.mask.Load()) }

// cqe returns an entry by its position.
func (c *CQ) cqe(base *CQE, n uint32) *CQE {
	return (*CQE)(unsafe.Add(unsafe.Pointer(base), uintptr(n)*c.stride))
}

// Timed reports whether the entries hold their times.
func (c *CQ) Timed() bool { return c.stride == timedCQESize }

// time returns the time of an entry, nil if the queue has none.
func (c *CQ) time(e *CQE) *int64 {
	if !c.Timed() {
		return nil
	}
	return &(*TimedCQE)(unsafe.Pointer(e)).Time
}

// Push adds an entry, completed now, and reports whether there was room.
func (c *CQ) Push(now clock.Instant, wc *ib.WC) bool {
	if c.prod-c.hdr.Cons.Load() >= c.mask.Load() {
		return false
	}
	e := c.entry(c.prod)
	if t := c.time(e); t != nil {
		*t = int64(now)
	}
	e.put(wc, c.prod)
	c.prod++
	c.hdr.Prod.Store(c.prod)
	return true
}

// Room returns how many entries Push can add; 0 if a reader corrupted its index.
func (c *CQ) Room() uint32 { return c.mask.Load() - c.waiting() }

// waiting returns the number of waiting entries, at most the capacity, even if
// a reader corrupted its index.
func (c *CQ) waiting() uint32 { return min(c.prod-c.hdr.Cons.Load(), c.mask.Load()) }

// Poll moves up to len(out) of the oldest entries to out and returns how many.
func (c *CQ) Poll(out []ib.WC) int { return c.PollTimes(out, nil) }

// PollTimes is Poll that also stores the times of the entries in times, which is nil, or
// as long as out. The queue must then be timed.
func (c *CQ) PollTimes(out []ib.WC, times []clock.Instant) (n int) {
	if c.hdr.Prod.Load() == c.hdr.Cons.Load() {
		return 0
	}
	c.lock()
	cons := c.hdr.Cons.Load()
	for ; n < len(out); n++ {
		e := c.entry(cons)
		if !e.get(&out[n], cons) {
			break
		}
		if times != nil {
			times[n] = clock.Instant(*c.time(e))
		}
		cons++
	}
	c.setCons(cons)
	c.unlock()
	return n
}

// Remove removes the waiting entries of a queue pair (Q5). The others keep
// their order and move up to the newest.
func (c *CQ) Remove(n ib.QPN) {
	c.lock()
	defer c.unlock()
	var wc ib.WC
	to := c.prod
	for i, end := c.prod, c.prod-c.waiting(); i != end; {
		i--
		e := c.entry(i)
		if e.get(&wc, i); wc.QPN == n {
			continue
		}
		if to--; to != i {
			c.move(c.entry(to), to, e, &wc)
		}
	}
	c.setCons(to)
}

// Unpolled returns how many entries that wait to be polled are successes, and how many are errors other than
// flushes. It counts those of one queue pair unless of is 0.
func (c *CQ) Unpolled(of ib.QPN) (succeeded, failed int) {
	c.lock()
	defer c.unlock()
	var wc ib.WC
	for i, n := c.hdr.Cons.Load(), c.mask.Load(); n > 0 && c.entry(i).get(&wc, i); i, n = i+1, n-1 {
		switch {
		case of != 0 && wc.QPN != of, wc.Status == ib.WCWRFlushErr:
		case wc.Status == ib.WCSuccess:
			succeeded++
		default:
			failed++
		}
	}
	return succeeded, failed
}

// move fills entry i with a completion, and with the time of the entry that it comes from.
func (c *CQ) move(to *CQE, i uint32, from *CQE, wc *ib.WC) {
	if t := c.time(to); t != nil {
		*t = *c.time(from)
	}
	to.put(wc, i)
}

// Resize changes the number of entries to at least n; waiting entries stay.
// EINVAL when they would not fit; ENOMEM or EINVAL if the allocator fails.
func (c *CQ) Resize(n uint32) error {
	c.lock()
	defer c.unlock()
	base, mask, waiting := c.base.Load(), c.mask.Load(), c.waiting()
	if CQSize(n) < waiting {
		return fmt.Errorf("resize CQ to %d entries: %d wait to be polled: %w", n, waiting, ib.EINVAL)
	}
	if err := c.place(CQSize(n) + 1); err != nil {
		return fmt.Errorf("resize CQ: %w", err)
	}
	var wc ib.WC
	for i := c.prod - waiting; i != c.prod; i++ {
		e := c.cqe(base, i&mask)
		e.get(&wc, i)
		c.move(c.entry(i), i, e, &wc)
	}
	c.alloc.put(unsafe.Pointer(base), int(mask+1)*int(c.stride))
	return nil
}

// Arm requests one event for the next entry: any, or only a solicited or
// unsuccessful one. A later Arm for solicited entries does not replace an Arm
// for any entry.
func (c *CQ) Arm(solicitedOnly bool) {
	if !solicitedOnly {
		atomic.StoreUint64(c.armed, uint64(ArmAny))
		c.hdr.Armed.Store(ArmAny)
	} else if c.hdr.Armed.CompareAndSwap(ArmNone, ArmSolicited) {
		atomic.StoreUint64(c.armed, uint64(ArmSolicited))
	}
}

// Armed reports whether a new entry would raise an event. solicited: as of Fire.
func (c *CQ) Armed(solicited bool) bool {
	a := c.hdr.Armed.Load()
	return a == ArmAny || a == ArmSolicited && solicited
}

// Fire reports whether a new entry raises an event, and if so disarms the
// queue. solicited: the entry is a solicited receive, or unsuccessful.
func (c *CQ) Fire(solicited bool) bool {
	for {
		a := c.hdr.Armed.Load()
		if a == ArmNone || a == ArmSolicited && !solicited {
			return false
		}
		if c.hdr.Armed.CompareAndSwap(a, ArmNone) {
			atomic.StoreUint64(c.armed, uint64(ArmNone))
			return true
		}
	}
}

// Fail marks the queue as overflowed and reports whether this is the first
// time.
func (c *CQ) Fail() bool { return c.hdr.Flags.Or(FlagOverflow)&FlagOverflow == 0 }

// Failed reports whether the queue overflowed.
func (c *CQ) Failed() bool { return c.hdr.Flags.Load()&FlagOverflow != 0 }

// put fills entry i and then marks it valid.
func (e *CQE) put(wc *ib.WC, i uint32) {
	e.WRID, e.ByteLen, e.QPN, e.SrcQP = wc.WRID, wc.ByteLen, wc.QPN, wc.SrcQP
	e.ImmData, e.InvRKey, e.VendorErr = wc.ImmData, wc.InvRKey, wc.VendorErr
	e.PKeyIndex, e.SLID, e.DLIDPathBits, e.SL = wc.PKeyIndex, wc.SLID, wc.DLIDPathBits, wc.SL
	e.Status, e.Opcode, e.Flags = wc.Status, wc.Opcode, wc.Flags
	e.EEC = [3]byte{byte(wc.EEC), byte(wc.EEC >> 8), byte(wc.EEC >> 16)}
	e.Valid.Store(i + 1)
}

// get copies entry i, if it is valid.
func (e *CQE) get(wc *ib.WC, i uint32) bool {
	if e.Valid.Load() != i+1 {
		return false
	}
	wc.WRID, wc.ByteLen, wc.QPN, wc.SrcQP = e.WRID, e.ByteLen, e.QPN, e.SrcQP
	wc.ImmData, wc.InvRKey, wc.VendorErr = e.ImmData, e.InvRKey, e.VendorErr
	wc.PKeyIndex, wc.SLID, wc.DLIDPathBits, wc.SL = e.PKeyIndex, e.SLID, e.DLIDPathBits, e.SL
	wc.Status, wc.Opcode, wc.Flags = e.Status, e.Opcode, e.Flags
	wc.EEC = ib.EECN(e.EEC[0]) | ib.EECN(e.EEC[1])<<8 | ib.EECN(e.EEC[2])<<16
	return true
}
