//go:build lockorder

package lock

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
)

// Mutex is a mutex of a rank.
type Mutex[R Rank] struct{ mu sync.Mutex }

// Lock locks m. It panics if the goroutine holds a lock that must not be held then.
func (m *Mutex[R]) Lock() {
	table.acquire(m, rank[R](), true)
	m.mu.Lock()
}

// TryLock tries to lock m, whatever the goroutine holds.
func (m *Mutex[R]) TryLock() bool {
	ok := m.mu.TryLock()
	if ok {
		table.acquire(m, rank[R](), false)
	}
	return ok
}

// Unlock unlocks m.
func (m *Mutex[R]) Unlock() {
	table.release(m)
	m.mu.Unlock()
}

// RWMutex is a mutex of a rank for one writer or several readers.
type RWMutex[R Rank] struct{ mu sync.RWMutex }

// Lock locks m for writing, as Mutex.Lock does.
func (m *RWMutex[R]) Lock() {
	table.acquire(m, rank[R](), true)
	m.mu.Lock()
}

// Unlock ends Lock.
func (m *RWMutex[R]) Unlock() {
	table.release(m)
	m.mu.Unlock()
}

// RLock locks m for reading. It checks as much as Lock: a reader that reads again
// deadlocks if a writer has come in between.
func (m *RWMutex[R]) RLock() {
	table.acquire(m, rank[R](), true)
	m.mu.RLock()
}

// RUnlock ends RLock.
func (m *RWMutex[R]) RUnlock() {
	table.release(m)
	m.mu.RUnlock()
}

// goroutine returns a number that no other running goroutine has.
func goroutine() uintptr

// holding is a lock that a goroutine holds, or is about to take.
type holding struct {
	lock any
	rank Rank
	pc   uintptr // after the call that took it
}

// String returns the rank and the place of the call.
func (h holding) String() string {
	f, _ := runtime.CallersFrames([]uintptr{h.pc}).Next()
	return fmt.Sprintf("%T at %s:%d", h.rank, f.File, f.Line)
}

// holdings are the locks that goroutines hold.
type holdings struct {
	mu     sync.Mutex // guards what follows
	of     map[uintptr][]holding
	broken string // the first violation; every later check reports it again, in case a caller recovers
}

var table = &holdings{of: make(map[uintptr][]holding)}

// acquire adds a lock to those of the caller. If the caller may wait for it, acquire
// checks the order first.
func (t *holdings) acquire(lock any, r Rank, waits bool) {
	var pc [1]uintptr
	runtime.Callers(3, pc[:])
	wanted := holding{lock, r, pc[0]}
	self := goroutine()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range t.of[self] {
		if waits && t.broken == "" && !below(r, h.rank) {
			t.broken = fmt.Sprintf("lock order: the goroutine wants %v and holds %v; see internal/lock/order.go", wanted, h)
		}
	}
	if t.broken != "" {
		panic(t.broken)
	}
	t.of[self] = append(t.of[self], wanted)
}

// release removes a lock from those of the caller. If another goroutine has locked it,
// release also forgets goroutines that wait for it.
func (t *holdings) release(lock any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	is := func(h holding) bool { return h.lock == lock }
	self := goroutine()
	if i := slices.IndexFunc(t.of[self], is); i >= 0 {
		t.of[self] = slices.Delete(t.of[self], i, i+1)
		return
	}
	for g, held := range t.of {
		t.of[g] = slices.DeleteFunc(held, is)
	}
}
