package verbstest_test

import (
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

// mapped is memory that Go does not manage, and a region of it. The race detector does not look at it, so a goroutine
// may look at memory that the peer writes.
type mapped struct {
	mem []byte
	mr  *verbs.MR
}

// mapped maps and registers memory.
func (r *rig) mapped(e *side) *mapped {
	mem, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	must.Do(r.t, err)
	mr, err := e.pd.RegMREx(&verbs.MRAttr{Addr: uintptr(unsafe.Pointer(&mem[0])), Length: uint64(len(mem)), Access: verbs.AccessLocalWrite | verbs.AccessRemote})
	must.Do(r.t, err)
	return &mapped{mem, mr}
}

// unmap deregisters and unmaps the memory.
func (r *rig) unmap(m *mapped) {
	must.Do(r.t, m.mr.Dereg())
	must.Do(r.t, syscall.Munmap(m.mem))
}

// word returns a word of the memory.
func (m *mapped) word(off int) *uint64 { return (*uint64)(unsafe.Pointer(&m.mem[off])) }

// The checker does not read memory that is gone.
func unmappedBeforePoll(r *rig, _ bool) {
	r.open(settings{})
	m := r.mapped(r.a)
	wr := r.write(64)
	wr.SGList = []verbs.SGE{m.mr.SGE(0, 64)}
	must.Do(r.t, r.a.qp.PostSend(wr))
	r.arrives(r.a.cq)
	must.Do(r.t, syscall.Munmap(m.mem))
	r.want(r.a.cq, verbs.WCSuccess)
	must.Do(r.t, m.mr.Dereg())
	r.close()
}

// Each side waits for the other's WRITE by looking at its memory. That the peer has answered does not mean that the
// WRITE before has completed: with the bug, the program reuses its buffer without a poll.
func waitsForMemory(r *rig, bug bool) {
	r.open(settings{})
	const rounds = depth / 2
	all := []*mapped{r.mapped(r.a), r.mapped(r.b)}
	var both sync.WaitGroup
	for i, e := range []*side{r.a, r.b} {
		both.Go(func() {
			m, peer := all[i], all[1-i]
			wr := verbs.SendWR{
				Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled, SGList: []verbs.SGE{m.mr.SGE(0, 8)}, RemoteAddr: peer.mr.Addr() + 8, RKey: peer.mr.RKey(),
			}
			for n := range uint64(rounds) {
				if i == 1 && !waitFor(m.word(8), n+1) {
					r.t.Errorf("message %d does not come", n)
				}
				*m.word(0) = n + 1
				if err := e.qp.PostSend(wr); err != nil { // BUG
					r.t.Error(err)
				}
				if i == 0 && !waitFor(m.word(8), n+1) {
					r.t.Errorf("answer %d does not come", n)
				}
				if !bug && !r.succeeds(e.cq) {
					r.t.Errorf("WRITE %d does not complete", n)
				}
			}
		})
	}
	both.Wait()
	for _, e := range []*side{r.a, r.b} {
		for range rounds {
			if bug {
				r.want(e.cq, verbs.WCSuccess)
			}
		}
	}
	for _, m := range all {
		r.unmap(m)
	}
	r.close()
}

// waitFor waits until a word has a value.
func waitFor(word *uint64, value uint64) bool {
	for end := time.Now().Add(time.Minute); atomic.LoadUint64(word) != value; {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// succeeds waits for a completion, as want does, on any goroutine.
func (r *rig) succeeds(q *verbs.CQ) bool {
	wcs := make([]verbs.WC, 1)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if n, err := q.Poll(wcs); n == 1 || err != nil {
			return err == nil && wcs[0].Status == verbs.WCSuccess
		}
	}
	return false
}

func TestK1_GoMapped(t *testing.T) { runCases(t, mappedCases(), "mapped", newRig) }

// mappedCases returns the cases of this file.
func mappedCases() []bugCase {
	return []bugCase{
		{"", unmappedBeforePoll},
		{"send-buffer-changed", waitsForMemory},
	}
}
