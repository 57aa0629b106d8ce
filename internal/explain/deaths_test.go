package explain

import (
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
)

// TestDeaths follows every capture, with and without silence behind it: whoever
// failed is told of once, with the verdict of the report, and nobody else.
func TestDeaths(t *testing.T) {
	failed := 0
	for _, k := range truths(t) {
		s := load(t, k.name)
		var told []Verdict
		f := New(Config{Died: func(v Verdict) { told = append(told, v) }})
		s.follow(f, func() {})
		if len(s.frames) > 0 {
			f.Idle(s.frames[len(s.frames)-1].at.Add(time.Hour))
			f.Idle(s.frames[len(s.frames)-1].at.Add(2 * time.Hour))
		}
		r := f.Report()
		dead := map[int]bool{}
		for _, found := range r.Findings {
			if found.Severity == Failed && found.id != cmREQUnanswered && found.id != sidrUnanswered {
				dead[found.Conversation] = true
			}
		}
		if len(told) != len(dead) {
			t.Errorf("%s: told of %d connections, %d failed: %+v", k.name, len(told), len(dead), told)
		}
		if len(told) == 1 && len(r.Findings) > 0 && (told[0].Cause != r.Verdict.Cause || told[0].Requester != r.Verdict.Requester || told[0].Record != r.Verdict.Record) {
			t.Errorf("%s: told is %+v, the report says %+v", k.name, told[0], r.Verdict)
		}
		failed += len(told)
	}
	if failed < 30 {
		t.Errorf("only %d connections failed", failed)
	}
}

// TestMomentOfDeath looks when a connection is told of: a refused one at the NAK, one
// without answers when it was silent for much longer than before its repeats, whether
// other packets tell the time or nobody but the clock.
func TestMomentOfDeath(t *testing.T) {
	const timeout = 400 * time.Millisecond
	for _, clock := range []bool{false, true} {
		s := &scene{t: t}
		send := func(to ib.QPN, psn uint32, after time.Duration) {
			s.add(client, after, &roce.Packet{BTH: bth(roce.RCSendOnly, to, psn)})
		}
		answer := func(to ib.QPN, psn uint32, syndrome roce.Syndrome) {
			s.add(server, time.Microsecond, &roce.Packet{BTH: bth(roce.RCAcknowledge, to, psn), AETH: roce.AETH{Syndrome: syndrome}})
		}
		send(0x20, 7, 0)
		answer(0x10, 7, roce.NAKRemoteAccess)
		refused := len(s.frames)
		send(0x22, 100, time.Microsecond)
		for range 3 {
			send(0x22, 100, timeout)
		}
		silent := s.frames[len(s.frames)-1].at
		if !clock {
			for i := range uint32(40) { // of another connection
				send(0x33, 1000+i, 100*time.Millisecond)
				answer(0x34, 1000+i, roce.ACKUnlimited)
			}
		}
		n, at := 0, []time.Time{}
		f := New(Config{Died: func(Verdict) { at = append(at, time.Time{}) }})
		s.follow(f, func() {
			if n++; n == refused && len(at) != 1 {
				t.Errorf("at the NAK %d connections failed", len(at))
			}
			for i := range at {
				if at[i].IsZero() {
					at[i] = s.frames[n-1].at
				}
			}
		})
		if clock {
			for now := silent; now.Before(silent.Add(time.Minute)) && len(at) < 2; now = now.Add(timeout / 4) {
				f.Idle(now)
				if len(at) == 2 {
					at[1] = now
				}
			}
		}
		if len(at) != 2 {
			t.Fatalf("%d connections failed, want 2", len(at))
		}
		if late := at[1].Sub(silent); late < patience*timeout || late > patience*timeout+2*sweep {
			t.Errorf("by the clock %v: told of %v after the last repeat", clock, late)
		}
	}
}
