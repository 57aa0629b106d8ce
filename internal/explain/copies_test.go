package explain

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/roce"
)

// twice returns the frames as an adapter captures them that talks to itself: they
// leave in batches, and come in a while later. lost says which do not come in.
func twice(all []frame, batch int, after time.Duration, lost func(i int) bool) (frames []frame, flags []pcapgo.NgEpbFlag) {
	for lo := 0; lo < len(all); lo += batch {
		part := all[lo:min(lo+batch, len(all))]
		for _, f := range part {
			frames, flags = append(frames, f), append(flags, pcapgo.NgEpbFlagDirectionOutbound)
		}
		for i, f := range part {
			if !lost(lo + i) {
				f.at = part[len(part)-1].at.Add(after)
				frames, flags = append(frames, f), append(flags, pcapgo.NgEpbFlagDirectionInbound)
			}
		}
	}
	return frames, flags
}

// ng returns the frames as a pcapng file; without flags there are no directions.
func ng(t *testing.T, frames []frame, flags []pcapgo.NgEpbFlag) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := pcapgo.NewNgWriter(&b, layers.LinkTypeEthernet)
	must.Do(t, err)
	for i, f := range frames {
		var o pcapgo.NgPacketOptions
		if flags != nil {
			o.Flags = &pcapgo.NgEpbFlags{Direction: flags[i]}
		}
		info := gopacket.CaptureInfo{Timestamp: f.at, CaptureLength: len(f.data), Length: len(f.data)}
		must.Do(t, w.WritePacketWithOptions(info, f.data, o))
	}
	must.Do(t, w.Flush())
	return b.Bytes()
}

// read explains a file.
func read(t *testing.T, file []byte, c Config) *Report {
	t.Helper()
	r, err := Read(bytes.NewReader(file), c)
	must.Do(t, err)
	return r
}

// never loses nothing.
func never(int) bool { return false }

// TestAdapterThatTalksToItself explains captures of Linux as an adapter would
// capture them that has both ends: the verdict is that of the capture where the
// packets left, however late they came in, and also without marks if that was soon.
func TestAdapterThatTalksToItself(t *testing.T) {
	for _, k := range truths(t) {
		s := load(t, k.name)
		want := s.explain()
		if k.outcome == "empty" || strings.Contains(names(want), table[requestDuplicated].Name) {
			continue // what a network doubled did not leave an adapter twice
		}
		for _, batch := range []int{1, 5, 400} {
			if batch > 1 && k.outcome != "clean" {
				continue // the answers that matter would come before the requests
			}
			frames, flags := twice(s.frames, batch, 10*time.Microsecond, never)
			got := read(t, ng(t, frames, flags), Config{Packets: 1 << 20})
			if got.Verdict.Outcome != want.Verdict.Outcome || got.Verdict.Cause != want.Verdict.Cause || len(got.Findings) != len(want.Findings) {
				t.Errorf("%s, batches of %d: %s %s (%s), want %s %s", k.name, batch, got.Verdict.Outcome, got.Verdict.Cause, names(got), k.outcome, k.cause)
			}
			if got.Twice+got.BadICRC+got.Malformed < len(s.frames) || len(got.Kept) >= len(frames) {
				t.Errorf("%s, batches of %d: %d packets of %d were captured twice, %d are kept", k.name, batch, got.Twice, len(s.frames), len(got.Kept))
			}
		}
		if frames, _ := twice(s.frames, 1, 10*time.Microsecond, never); k.outcome == "clean" {
			if r := read(t, ng(t, frames, nil), Config{}); len(problems(r)) > 0 {
				t.Errorf("%s, without marks: %s: %s", k.name, names(r), problems(r)[0].Detail)
			}
		}
	}
}

// TestLossInAnAdapter loses a request between an adapter and itself: it was lost
// after it passed, and came again once.
func TestLossInAnAdapter(t *testing.T) {
	s := load(t, "loss_send_middle.client")
	r := read(t, ng(t, s.frames, slices.Repeat([]pcapgo.NgEpbFlag{pcapgo.NgEpbFlagDirectionOutbound}, len(s.frames))), Config{})
	lost := func(i int) bool { return i == r.Findings[0].First-1-3 }
	frames, flags := twice(s.frames, 1, time.Microsecond, lost)
	got := read(t, ng(t, frames, flags), Config{})
	if names(got) != "request-lost" || got.Findings[0].Count != 1 {
		t.Errorf("%s, %d times", names(got), got.Findings[0].Count)
	}
	if n := got.Conversations[0].Notes; len(n) == 0 || !strings.Contains(n[len(n)-1], "both ends are on the capturing host") {
		t.Errorf("the notes are %q", n)
	}
}

// TestDelayedCopies merges captures of two places that are far from each other, and
// such that are cut off.
func TestDelayedCopies(t *testing.T) {
	const snap = 80
	for _, name := range clean(t) {
		s := load(t, name)
		if len(s.frames) < minMerged {
			continue
		}
		for _, apart := range []time.Duration{20 * time.Microsecond, 400 * time.Microsecond, 3 * time.Millisecond} {
			both := &scene{t, slices.Clone(s.frames)}
			for i, f := range s.frames { // the second place, so that nothing is answered before it was there
				both.frames[i].at = f.at.Add(time.Duration(i) * 2 * apart)
			}
			for _, f := range both.frames[:len(s.frames):len(s.frames)] {
				both.frames = append(both.frames, frame{f.at.Add(apart), f.data})
			}
			both.sort()
			if r := both.explain(); len(problems(r)) > 0 {
				t.Errorf("%s, %v apart: %s: %s", name, apart, names(r), problems(r)[0].Detail)
			}
			both.each(0, func(f *frame) { f.data = f.data[:min(len(f.data), snap)] })
			if r := both.explain(); len(problems(r)) > 0 {
				t.Errorf("%s, %v apart and cut off: %s: %s", name, apart, names(r), problems(r)[0].Detail)
			}
		}
	}
}

// TestCopiesThatSomethingAskedFor follows repeats that come at once and are the
// same to the bit: a NAK, or an answer to what follows, asked for them.
func TestCopiesThatSomethingAskedFor(t *testing.T) {
	send := func(s *scene, psn uint32) {
		s.add(client, time.Microsecond, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, psn)})
	}
	answer := func(s *scene, psn uint32, syndrome roce.Syndrome, msn ib.MSN) {
		s.add(server, time.Microsecond, &roce.Packet{BTH: bth(roce.RCAcknowledge, 0x11, psn), AETH: roce.AETH{Syndrome: syndrome, MSN: msn}})
	}
	for name, c := range map[string]struct {
		play   func(s *scene)
		found  string
		failed bool
	}{
		"after a NAK": {func(s *scene) {
			send(s, 1)
			send(s, 2)
			send(s, 3)
			answer(s, 2, roce.NAKSequence, 1)
			send(s, 2)
			send(s, 3)
			answer(s, 3, roce.ACKUnlimited, 3)
		}, "request-lost", false},
		"after RNR NAKs, of which the last is the same as the first": {func(s *scene) {
			send(s, 1)
			answer(s, 1, roce.ACKUnlimited, 1)
			for range 3 {
				s.add(client, ib.RNRTimer(1), &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, 2)})
				answer(s, 2, roce.RNRNAK(1), 1)
			}
		}, "rnr-unresolved rnr-wait", true},
		"without any reason": {func(s *scene) {
			send(s, 1)
			send(s, 1)
			answer(s, 1, roce.ACKUnlimited, 1)
			for psn := range uint32(5) {
				send(s, 2+psn)
				answer(s, 2+psn, roce.ACKUnlimited, ib.MSN(2+psn))
			}
		}, "request-duplicated", false},
	} {
		s := &scene{t: t}
		c.play(s)
		if r := s.explain(); names(r) != c.found || r.Verdict.Bad() != c.failed {
			t.Errorf("%s: %s, want %s", name, names(r), c.found)
		}
	}
}
