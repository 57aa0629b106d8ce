package explain

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// TestDeaths follows every capture, with and without silence behind it: whoever
// failed is told of once, with the verdict of the report, and nobody else.
func TestDeaths(t *testing.T) {
	failed := 0
	for _, k := range truths(t) {
		s := load(t, k.name)
		var told []Verdict
		f := New(Config{Tell: func(n News) {
			if n.Turn == Died {
				told = append(told, n.Verdict)
			}
		}})
		s.follow(f, func() {})
		if len(s.frames) > 0 {
			f.Idle(s.frames[len(s.frames)-1].at.Add(time.Hour))
			f.Idle(s.frames[len(s.frames)-1].at.Add(2 * time.Hour))
		}
		r := f.Report()
		dead := map[int]bool{}
		for _, found := range r.Findings {
			if found.Severity == Failed {
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
		f := New(Config{Tell: func(News) { at = append(at, time.Time{}) }})
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
		if late := at[1].Sub(silent); late < silenceFactor*timeout || late > silenceFactor*timeout+sweep {
			t.Errorf("by the clock %v: told of %v after the last repeat", clock, late)
		}
	}
}

// TestNewsOfRequests looks what is told of messages of connection managers that nobody
// answers, and when: at the repetition that shows it, and at the latest when no more of
// them come.
func TestNewsOfRequests(t *testing.T) {
	for _, c := range []struct {
		name, capture string
		change        func(s *scene)
		causes        []string // of what is told, in this order
		turns         []Turn
		record        int // of the first
		dies          string
	}{
		{"no REQ is answered", "loss_cm_req.client", silent(0), []string{"cm-req-repeated", "cm-req-unanswered"}, []Turn{Waits, Died}, 2, "cm-req-unanswered"},
		{"the client gives up", "loss_cm_req.client", gaveUp, []string{"cm-req-repeated", "cm-req-unanswered"}, []Turn{Waits, Died}, 2, "cm-req-unanswered"},
		{"the second is", "loss_cm_req.client", nil, []string{"cm-req-repeated"}, []Turn{Waits}, 2, ""},
		{"no SIDR_REQ is", "loss_cm_sidr_req.client", silent(0), []string{"sidr-repeated", "sidr-unanswered"}, []Turn{Waits, Died}, 2, "sidr-unanswered"},
		{"no DREQ is", "cm_cmx_accept", func(s *scene) {
			k := message(s, mad.AttrDREQ)
			s.frames = s.frames[:k+1]
			s.repeat(k, time.Second)
			s.repeat(k, time.Second)
		}, []string{"cm-dreq-repeated"}, []Turn{Waits}, 0, ""},
		{"one REQ only", "loss_cm_req.client", func(s *scene) { s.frames = s.frames[:1] }, nil, nil, 0, ""},
		{"an APR refuses, three times", "cm_cmx_accept", func(s *scene) {
			k := message(s, mad.AttrRTU)
			f := &s.frames[k]
			binary.BigEndian.PutUint16(f.data[atMAD+16:], uint16(mad.AttrAPR))
			f.data[atCM+9] = byte(mad.APRInvalidGID)
			f.seal()
			s.repeat(k, time.Second)
			s.repeat(k, time.Second)
		}, []string{"cm-alternate-refused"}, []Turn{GoesOn}, 0, "cm-alternate-refused"},
	} {
		s := load(t, c.capture)
		if c.change != nil {
			c.change(s)
		}
		var causes []string
		var turns []Turn
		first := 0
		f := New(Config{Tell: func(n News) {
			causes, turns = append(causes, n.Cause), append(turns, n.Turn)
			if !strings.HasPrefix(n.Where, "CM, 10.77.0.3 and 10.77.0.2; ") {
				t.Errorf("%s: the news is of %s", c.name, n.Where)
			}
			if first == 0 {
				first = n.Record
			}
		}})
		s.follow(f, func() {
			if n := f.report.Packets; n == c.record && !slices.Equal(turns, c.turns[:1]) {
				t.Errorf("%s: with packet %d is told %v", c.name, n, causes)
			}
		})
		for i := range 3 {
			f.Idle(s.frames[len(s.frames)-1].at.Add(time.Duration(i+1) * time.Hour))
		}
		if !slices.Equal(causes, c.causes) || !slices.Equal(turns, c.turns) || c.record != 0 && first != c.record {
			t.Errorf("%s: told is %v (%v), first of record %d; want %v (%v), record %d", c.name, causes, turns, first, c.causes, c.turns, c.record)
		}
		if r := f.Report(); c.dies != "" && (r.Verdict.Cause != c.dies || c.record != 0 && r.Verdict.Record != c.record) {
			t.Errorf("%s: the verdict is %s of record %d", c.name, r.Verdict.Cause, r.Verdict.Record)
		}
	}
}

// TestAlternateRefusedEndsNothing has an APR refuse before a request is refused: the
// verdict is that of the connection's end.
func TestAlternateRefusedEndsNothing(t *testing.T) {
	s := load(t, "cm_cmx_accept")
	f := &s.frames[message(s, mad.AttrRTU)]
	binary.BigEndian.PutUint16(f.data[atMAD+16:], uint16(mad.AttrAPR))
	f.data[atCM+9] = byte(mad.APRInvalidGID)
	f.seal()
	s.add(client, time.Second, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x20, 7)})
	s.add(server, time.Millisecond, &roce.Packet{BTH: bth(roce.RCAcknowledge, 0x10, 7), AETH: roce.AETH{Syndrome: roce.NAKInvalidRequest}})
	if r := s.explain(); r.Verdict.Cause != "invalid-request" || len(r.Findings) != 2 {
		t.Errorf("%s: %s", r.Verdict.Cause, names(r))
	}
}
