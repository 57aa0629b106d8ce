package explain

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/roce"
)

// TestSelectiveRepeats follows a requester that sends only what is missing again, or
// one packet after silence and then the next that is not acknowledged: what it leaves
// out was not lost on the way to here.
func TestSelectiveRepeats(t *testing.T) {
	send := func(s *scene, after time.Duration, psns ...uint32) {
		for _, psn := range psns {
			s.add(client, after, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, psn)})
			after = time.Microsecond
		}
	}
	answer := func(s *scene, psn uint32, syndrome roce.Syndrome) {
		s.add(server, 10*time.Microsecond, &roce.Packet{BTH: bth(roce.RCAcknowledge, 0x11, psn), AETH: roce.AETH{Syndrome: syndrome, MSN: 1}})
	}
	for name, c := range map[string]struct {
		play  func(s *scene)
		found map[string]int // and how often
	}{
		"two gaps, a NAK each": {func(s *scene) {
			send(s, 0, 0, 1, 2, 3, 4, 5, 6, 7)
			answer(s, 1, roce.NAKSequence)
			send(s, time.Microsecond, 1)
			answer(s, 5, roce.NAKSequence)
			send(s, time.Microsecond, 5)
			answer(s, 7, roce.ACKUnlimited)
		}, map[string]int{"request-lost": 2}},
		"probes": {func(s *scene) {
			send(s, 0, 0, 1, 2, 3, 4, 5, 6, 7)
			send(s, 5*time.Millisecond, 0)
			answer(s, 3, roce.ACKUnlimited)
			send(s, time.Microsecond, 4)
			answer(s, 7, roce.ACKUnlimited)
		}, map[string]int{"timeout-repeat": 1}},
		"probes, and silence between": {func(s *scene) {
			send(s, 0, 0, 1, 2, 3, 4, 5, 6, 7)
			send(s, 5*time.Millisecond, 0)
			answer(s, 3, roce.ACKUnlimited)
			send(s, 5*time.Millisecond, 4)
			answer(s, 7, roce.ACKUnlimited)
		}, map[string]int{"timeout-repeat": 2}},
		"all from the gap on, of which some is missing": {func(s *scene) {
			send(s, 0, 0, 1, 2, 3, 4, 5, 6, 7)
			answer(s, 1, roce.NAKSequence)
			send(s, time.Microsecond, 1, 2, 5, 6, 7)
			answer(s, 7, roce.ACKUnlimited)
		}, map[string]int{"request-lost": 1, "request-lost-upstream": 1}},
	} {
		s := &scene{t: t}
		c.play(s)
		r := s.explain()
		for _, f := range r.Findings {
			if c.found[f.Rule] != f.Count {
				t.Errorf("%s: %s %d times, not %d: %s", name, f.Rule, f.Count, c.found[f.Rule], f.Detail)
			}
		}
		if len(r.Findings) != len(c.found) {
			t.Errorf("%s: found %s, want %v", name, names(r), c.found)
		}
	}
}

// TestMigrationAfterLostAnswers follows a requester whose answers pass here and get
// lost, and which goes on over its alternate path: it did not fail.
func TestMigrationAfterLostAnswers(t *testing.T) {
	s := &scene{t: t}
	for range 4 {
		s.add(client, 100*time.Millisecond, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, 7)})
		s.add(server, time.Microsecond, &roce.Packet{BTH: bth(roce.RCAcknowledge, 0x11, 7), AETH: roce.AETH{Syndrome: roce.ACKUnlimited, MSN: 1}})
	}
	for psn := range uint32(3) {
		s.add(client, 100*time.Millisecond, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, 7+psn)})
		s.add(server, time.Microsecond, &roce.Packet{BTH: bth(roce.RCAcknowledge, 0x11, 7+psn), AETH: roce.AETH{Syndrome: roce.ACKUnlimited, MSN: 1}})
	}
	s.each(8, func(f *frame) {
		f.data[ethernet+13]++ // another net, for both
		f.data[ethernet+17]++
		f.data[atPad] |= 0x40
		f.seal()
	})
	if r := s.explain(); names(r) != "answer-lost migrated" || len(r.Conversations) != 1 {
		t.Errorf("%s, in %d conversations", names(r), len(r.Conversations))
	}
}

// TestAtomicBehindTheOthers refuses an atomic that came late: the finding has its address and key.
func TestAtomicBehindTheOthers(t *testing.T) {
	s := &scene{t: t}
	for _, psn := range []uint32{0, 2} {
		s.add(client, time.Microsecond, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, psn)})
	}
	s.add(client, time.Microsecond, &roce.Packet{BTH: bth(roce.RCFetchAdd, 0x22, 1), AtomicETH: roce.AtomicETH{VA: 0x1000, RKey: 7}})
	s.add(server, time.Microsecond, &roce.Packet{BTH: bth(roce.RCAcknowledge, 0x11, 1), AETH: roce.AETH{Syndrome: roce.NAKRemoteAccess, MSN: 1}})
	r := s.explain()
	i := slices.IndexFunc(r.Findings, func(f *Finding) bool { return f.id == atomicRefused })
	if i < 0 || !strings.Contains(r.Findings[i].Detail, "of 8 bytes to 0x1000 with R_Key 0x00000007") {
		t.Errorf("found %s, and no such atomic: %s", names(r), r.Verdict.Where)
	}
}
