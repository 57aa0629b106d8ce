package qp

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
)

// TestE9_OldResources shows that a stored READ more than half of the PSN space
// back is not mistaken for one between a duplicate and the expected PSN, and
// that of two stored results with the same PSN the newer is used.
func TestE9_OldResources(t *testing.T) {
	at := ib.NewPSN
	for _, c := range []struct {
		old, epsn, dup, want uint32
	}{
		{0, 0x10, 0x08, 0x0f},                        // the READ is behind both
		{0x09, 0x10, 0x08, 0x08},                     // it is between: acknowledged up to it
		{0, 1<<23 + 0x10, 1<<23 + 0x08, 1<<23 + 0xf}, // far behind: ignored
		{0, 0xfffff0, 0xffffe0, 0xffffef},            // nearly once round
		{0xfffff8, 0x08, 0xfffff0, 0xfffff7},         // between, across the wrap
	} {
		r := responder{in: &receiver{epsn: at(c.epsn)}}
		r.kept.add(readAt(at(c.old)), 0, 1)
		if got := r.lastExecuted(at(c.dup)); got != at(c.want) {
			t.Errorf("a duplicate at %06x with a READ kept at %06x and %06x expected is acknowledged up to %v, want %06x",
				c.dup, c.old, c.epsn, got, c.want)
		}
	}
	var s resources
	s.add(readAt(at(5)), 0, 1).value = 1
	s.add(readAt(at(5)), 0, 1).value = 2 // 2^24 PSNs later
	if e, _ := s.find(at(5)); e == nil || e.value != 2 {
		t.Errorf("of two results with one PSN the older answers: %+v", e)
	}
}

// readAt is a READ request at a PSN.
func readAt(psn ib.PSN) *Packet {
	return &Packet{Packet: roce.Packet{BTH: roce.BTH{PSN: psn}, Info: roce.RCRDMAReadRequest.Info()}}
}

// modelRead is the unanswered rest of a READ in the model: the PSNs next to
// end.
type modelRead struct {
	first, last, next, end uint32
	owes                   bool
	again                  bool // its duplicate is to be answered
}

// TestE11_AnsweredBehindRepeated: an answered READ is not stored beyond the
// depth because an older one is repeated.
func TestE11_AnsweredBehindRepeated(t *testing.T) {
	const depth, limit = 1, 3
	var s resources
	for i := range uint32(limit) {
		if !s.ready(depth, limit) {
			t.Fatal("no room for what may wait")
		}
		s.add(readAt(ib.NewPSN(i)), 0, 1)
	}
	for e := s.front(); e != nil; e = s.front() {
		e.pending = false
	}
	_, oldest := s.find(ib.NewPSN(0))
	s.again(oldest, ib.NewPSN(0), ib.NewPSN(0), 0)
	for i := range uint32(2) {
		if !s.ready(depth, limit) {
			t.Fatal("no room, though all but one were answered")
		}
		s.add(readAt(ib.NewPSN(limit+i)), 0, 1)
	}
	if e, _ := s.find(ib.NewPSN(2)); e != nil {
		t.Errorf("%+v is kept, with %d of depth %d", e, s.n, depth)
	}
}

// TestE11_Model compares the stored READs with a list of their unanswered rests, under any order of
// arrivals, answers and duplicates: an unanswered READ is never dropped, nor a repeated one unless
// its room is needed; answers go out from the oldest on, and no more are kept than the depth, or
// the limit for what waits.
func TestE11_Model(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		depth, limit := rapid.Uint32Range(0, 5).Draw(t, "depth"), rapid.Uint32Range(0, 7).Draw(t, "limit")
		base := rapid.SampledFrom([]uint32{0, 1<<24 - 9}).Draw(t, "base")
		at := func(v uint32) ib.PSN { return ib.NewPSN(base + v) }
		var s resources
		var model []modelRead
		epsn := uint32(0)
		t.Repeat(map[string]func(*rapid.T){
			"arrival": func(t *rapid.T) {
				n := rapid.Uint32Range(1, 4).Draw(t, "packets")
				for len(model) >= max(int(depth), 1) && !model[0].owes {
					model = model[1:]
				}
				for depth > 0 && len(model) >= int(max(depth, limit)) && (!model[0].owes || model[0].again) {
					model = model[1:]
				}
				want := depth > 0 && len(model) < int(max(depth, limit))
				if got := s.ready(depth, limit); got != want {
					t.Fatalf("ready is %v with %d kept, want %v", got, s.n, want)
				}
				if want {
					s.add(readAt(at(epsn)), 0, n)
					model = append(model, modelRead{epsn, epsn + n - 1, epsn, epsn + n - 1, true, false})
					epsn += n
				}
			},
			"answer": func(t *rapid.T) {
				i := slices.IndexFunc(model, func(m modelRead) bool { return m.owes })
				e := s.front()
				if (e == nil) != (i < 0) || e != nil && e.next != at(model[i].next) {
					t.Fatalf("the next to answer is %+v, the model has %d of %+v", e, i, model)
				}
				if e != nil {
					e.pending = e.next != e.end
					e.next = e.next.Next()
					s.front() // as sendResponses does to find that nothing is left
					model[i].owes = model[i].next != model[i].end
					model[i].next++
				}
			},
			"duplicate": func(t *rapid.T) {
				p := rapid.Uint32Range(0, epsn).Draw(t, "psn")
				i := slices.IndexFunc(model, func(m modelRead) bool { return m.first <= p && p <= m.last })
				e, at1 := s.find(at(p))
				if (e == nil) != (i < 0) || e != nil && e.first != at(model[i].first) {
					t.Fatalf("for PSN %d %+v is found, the model has %d of %+v", p, e, i, model)
				}
				if e != nil {
					s.again(at1, at(p), e.last, 0)
					model[i].again = model[i].again || !model[i].owes || p < model[i].next
					model[i].next, model[i].end, model[i].owes = p, model[i].last, true
				}
			},
			"": func(t *rapid.T) {
				owed := slices.ContainsFunc(model, func(m modelRead) bool { return m.owes })
				if s.n > int(max(depth, limit)) || s.pending() != owed {
					t.Fatalf("%d are kept of depth %d and limit %d; the model is %+v", s.n, depth, limit, model)
				}
			},
		})
	})
}
