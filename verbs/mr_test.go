package verbs

import (
	"errors"
	"sync"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// TestReregAtOnce moves a region between protection domains, and to other
// memory, in several threads at once: each change is atomic, every domain counts its
// objects, and a scatter element matches the region at some instant.
func TestReregAtOnce(t *testing.T) {
	a, _ := newPair(t, ib.RC)
	var pds [3]*PD
	for i := range pds {
		var err error
		pds[i], err = a.ctx.AllocPD()
		must.Do(t, err)
	}
	mr, err := pds[0].RegMR(make([]byte, 64), ib.AccessLocalWrite|ib.AccessRemoteWrite)
	must.Do(t, err)
	var all sync.WaitGroup
	for _, pd := range pds {
		all.Go(func() {
			for range 20_000 {
				if err := mr.ReregPD(pd); err != nil {
					t.Error(err)
					return
				}
				if s := mr.SGE(8, 8); s.Addr == 0 || s.LKey == 0 || mr.RKey() == 0 || len(mr.Bytes()) != 64 || mr.Len() != 64 {
					t.Errorf("the region became %+v", s)
				}
			}
		})
	}
	all.Go(func() {
		for range 500 {
			if err := errors.Join(mr.ReregMemory(make([]byte, 64)), mr.ReregAccess(ib.AccessLocalWrite|ib.AccessRemoteWrite)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	all.Wait()
	must.Do(t, mr.Dereg())
	for _, pd := range pds {
		must.Do(t, pd.Dealloc())
	}
}
