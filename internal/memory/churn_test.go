package memory_test

import (
	"math/rand/v2"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/churn"
	"github.com/softhca/softhca/internal/memory"
)

// keyWorld is a table under churn and the model of it: a map of the live keys
// and one of the dead.
type keyWorld struct {
	t    *testing.T
	rng  *rand.Rand
	tab  *memory.Table
	all  churn.Pool[*keyed]
	live map[uint32]*keyed // by the index of the key
	dead map[uint32]int    // by index: keys given out when it died
	was  churn.Pool[ib.LKey]
	made int // keys given out
	back int // indices that were used again
}

// keyed is what the model knows of a region.
type keyed struct {
	r   *memory.Region
	key ib.LKey
	pd  memory.PD
	buf []byte
	acc ib.Access
}

const (
	churnRest    = 4096 // registrations for which the index of a dead key rests
	churnShift   = 8
	churnRights  = ib.AccessLocalWrite | ib.AccessRemote
	churnPDs     = 5
	churnHistory = 20000 // dead keys that are tried again

	// crowdedIndices are few enough for each to be drawn once in crowdedDraws,
	// but for one case in a million.
	crowdedIndices = 1 << 13
	crowdedDraws   = 24 * crowdedIndices
)

// gave looks at the key that a region has just got.
func (w *keyWorld) gave(k *keyed) {
	k.key = k.r.LKey()
	index := uint32(k.key) >> churnShift
	if w.live[index] != nil || index == 0 {
		w.t.Fatalf("key %#x is given out: no index, or a live one", k.key)
	}
	if at, ok := w.dead[index]; ok {
		if w.made-at < churnRest {
			w.t.Fatalf("the index of key %#x comes back after %d registrations", k.key, w.made-at)
		}
		w.back++
	}
	delete(w.dead, index)
	w.live[index] = k
	w.made++
}

// died records that a key is no longer valid.
func (w *keyWorld) died(key ib.LKey) {
	index := uint32(key) >> churnShift
	delete(w.live, index)
	w.dead[index] = w.made
	if w.was.Len() == churnHistory {
		w.was.Take(w.rng)
	}
	w.was.Add(key)
}

func (w *keyWorld) register() {
	k := &keyed{pd: memory.PD(1 + w.rng.IntN(churnPDs)), buf: make([]byte, 8)}
	if w.rng.IntN(2) == 0 {
		k.acc = churnRights
	}
	var err error
	if k.r, err = w.tab.Register(memory.RegionConfig{PD: k.pd, Buf: k.buf, IOVA: 1 << 20, Access: k.acc}); err != nil {
		w.t.Fatalf("registration %d, %d live: %v", w.made, w.all.Len(), err)
	}
	w.gave(k)
	w.all.Add(k)
}

func (w *keyWorld) deregister() {
	k := w.all.Take(w.rng)
	if err := w.tab.Deregister(k.r); err != nil {
		w.t.Fatalf("live key %#x: %v", k.key, err)
	}
	w.died(k.key)
	if err := w.tab.Deregister(k.r); err == nil {
		w.t.Fatalf("key %#x is deregistered twice", k.key)
	}
}

// change registers a region again: with a new translation it gets a new key.
func (w *keyWorld) change() {
	k := w.all.Pick(w.rng)
	what := memory.Change(1 + w.rng.IntN(7))
	c := memory.RegionConfig{PD: memory.PD(1 + w.rng.IntN(churnPDs)), Buf: make([]byte, 8), IOVA: 1 << 20, Access: churnRights}
	if err := w.tab.Reregister(k.r, what, c); err != nil {
		w.t.Fatalf("change %d of live key %#x: %v", what, k.key, err)
	}
	if what&memory.ChangePD != 0 {
		k.pd = c.PD
	}
	if what&memory.ChangeAccess != 0 {
		k.acc = c.Access
	}
	if what&memory.ChangeTranslation != 0 {
		old := k.key
		k.buf = c.Buf
		w.gave(k)
		w.died(old)
	}
}

// alive checks that a live key gives access to its bytes with its rights, in
// its protection domain only.
func (w *keyWorld) alive(k *keyed) {
	const addr, n = 1 << 20, 8
	if k.r.LKey() != k.key {
		w.t.Fatalf("key %#x has become %#x", k.key, k.r.LKey())
	}
	b, f := w.tab.Local(k.pd, k.key, addr, n, 0)
	if f != memory.FaultNone || &b[0] != &k.buf[0] {
		w.t.Fatalf("live key %#x leads elsewhere: %v", k.key, f)
	}
	b, f = w.tab.Remote(memory.Via{PD: k.pd}, ib.RKey(k.key), addr, n, churnRights&ib.AccessRemote)
	switch remote := k.acc&ib.AccessRemote != 0; {
	case remote && (f != memory.FaultNone || &b[0] != &k.buf[0]):
		w.t.Fatalf("live remote key %#x leads elsewhere: %v", k.key, f)
	case !remote && f != memory.FaultKey:
		w.t.Fatalf("key %#x without remote rights: %v", k.key, f)
	}
	if _, f = w.tab.Local(k.pd+1, k.key, addr, n, 0); f != memory.FaultPD {
		w.t.Fatalf("live key %#x for another protection domain: %v", k.key, f)
	}
	w.nowhere(k.key ^ 1)
}

// nowhere checks that a key gives no access.
func (w *keyWorld) nowhere(key ib.LKey) {
	for pd := memory.PD(1); pd <= churnPDs; pd++ {
		if _, f := w.tab.Local(pd, key, 1<<20, 8, 0); f != memory.FaultKey {
			w.t.Fatalf("dead key %#x: %v", key, f)
		}
	}
}

func (w *keyWorld) step(tide *churn.Tide) {
	switch {
	case w.all.Len() > 0 && w.rng.IntN(10) == 0:
		w.change()
	case tide.Rises(w.rng, w.all.Len()):
		w.register()
	default:
		w.deregister()
	}
	if w.tab.Len() != w.all.Len() {
		w.t.Fatalf("%d regions, want %d", w.tab.Len(), w.all.Len())
	}
	if w.all.Len() > 0 {
		w.alive(w.all.Pick(w.rng))
	}
	if w.was.Len() > 0 {
		if key := w.was.Pick(w.rng); w.live[uint32(key)>>churnShift] == nil {
			w.nowhere(key)
		}
	}
}

// allCameBack checks that no free index stays unused for too long.
func (w *keyWorld) allCameBack() {
	w.t.Helper()
	if w.back == 0 {
		w.t.Errorf("no index was used again in %d registrations", w.made)
	}
	for index, at := range w.dead {
		if w.made-at > crowdedDraws {
			w.t.Errorf("index %#x was not used again in %d registrations", index, w.made-at)
		}
	}
}

// TestChurnKeys registers, changes and deregisters a million regions in
// disorder. In the crowded case the source of the keys has few indices, so that
// the runs of the table are long, wrap, and are broken in the middle; in the
// wide one the table grows to its largest.
func TestChurnKeys(t *testing.T) {
	for name, c := range map[string]struct {
		mask uint32 // of the keys
		most int
	}{
		"crowded": {crowdedIndices<<churnShift - 1, 1500},
		"wide":    {1<<32 - 1, 50000},
	} {
		t.Run(name, func(t *testing.T) {
			rng := churn.Rand(t)
			w := &keyWorld{t: t, rng: rng, live: map[uint32]*keyed{}, dead: map[uint32]int{}}
			w.tab = memory.NewTable(func() uint32 { return rng.Uint32() & c.mask }, memory.Limits{Regions: c.most})
			tide := churn.Tide{Most: c.most}
			objects := churn.Objects()
			for next := 0; w.made < objects/2; {
				if w.step(&tide); w.made >= next {
					next += objects / 20
					for _, k := range w.live {
						w.alive(k)
					}
				}
			}
			if name == "crowded" {
				w.allCameBack()
			}
			for w.all.Len() > 0 {
				w.deregister()
			}
		})
	}
}
