package explain

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// TestEmptyCaptures explains files without a RoCEv2 packet: that is not clean, and the
// verdict says what the reason may be.
func TestEmptyCaptures(t *testing.T) {
	other := &scene{t: t}
	other.add(client, 0, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, 1)})
	other.frames[0].data[atPort+3]++ // another port
	for name, c := range map[string]struct {
		scene *scene
		where string
	}{
		"no record":       {&scene{t: t}, "the file has no record at all"},
		"of another port": {other, "none of 1 record is one"},
	} {
		v := c.scene.explain().Verdict
		if v.Outcome != "empty" || v.Cause != "no-packets" || v.Where != c.where || v.Bad() || v.Told() || !strings.Contains(v.Means, "filter") || v.Try == "" {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// TestWhatIsNotClean says that only a capture in which every request was answered is
// clean.
func TestWhatIsNotClean(t *testing.T) {
	for _, k := range truths(t) {
		r := load(t, k.name).explain()
		open := slices.ContainsFunc(r.Messages, func(m Message) bool { return m.Outcome != completed })
		if open && r.Verdict.Outcome == "clean" {
			t.Errorf("%s is clean, and has a message without an answer", k.name)
		}
	}
}

// TestRNRRetryOfConnectionManagers has connection managers agree on rnr_retry: the REP
// says how often the client is to repeat after RNR NAKs.
func TestRNRRetryOfConnectionManagers(t *testing.T) {
	for retry, want := range map[byte]string{7: "rnr-waits", 3: "rnr-unresolved"} {
		s := load(t, "cm_cmx_accept")
		first := slices.IndexFunc(s.frames, func(f frame) bool { return f.op() == roce.RCSendOnly && f.from() == client })
		if first < 0 {
			t.Fatal("the client sends nothing")
		}
		s.frames = s.frames[:first+1]
		rep := &s.frames[message(s, mad.AttrREP)]
		rep.data[atCM+27] = rep.data[atCM+27]&0x1f | retry<<5
		rep.seal()
		var request roce.Packet
		if fault := request.Parse(s.frames[first].data[headers:]); fault != roce.FaultNone {
			t.Fatal(fault)
		}
		to := s.explain().Conversations[1].A.QPN
		s.add(server, time.Microsecond, &roce.Packet{
			BTH: bth(roce.RCAcknowledge, ib.QPN(*to), request.BTH.PSN.Value()), AETH: roce.AETH{Syndrome: roce.RNRNAK(1)},
		})
		if r := s.explain(); r.Verdict.Cause != want || !strings.HasSuffix(r.Verdict.Where, fmt.Sprintf(", rnr_retry %d", retry)) {
			t.Errorf("rnr_retry %d: %s, %s; want %s; found %s", retry, r.Verdict.Cause, r.Verdict.Where, want, names(r))
		}
	}
}

// TestSummary reads the first lines of the text.
func TestSummary(t *testing.T) {
	var text bytes.Buffer
	r := load(t, "errs_mw_send_inv").explain()
	must.Do(t, r.Text(&text, TextOptions{}))
	for _, want := range []string{"VERDICT failed: ", "conversations   1: 1 failed\n", "first failure", "record 6", "record 3, a SEND with invalidate"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in\n%s", want, text.String())
		}
	}
	if strings.Contains(text.String(), "conversation 0") {
		t.Errorf("there is no conversation 0:\n%s", text.String())
	}
}

// TestRepeatsBetweenRNRNAKs has a requester wait for a receiver that is not ready, and now
// and then for an RNR NAK that gets lost: it has answers in between, so it did not fail.
func TestRepeatsBetweenRNRNAKs(t *testing.T) {
	s := &scene{t: t}
	send := func(after time.Duration) {
		s.add(client, after, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, 2)})
	}
	send(0)
	for range 5 {
		s.add(server, time.Microsecond, &roce.Packet{BTH: bth(roce.RCAcknowledge, 0x11, 2), AETH: roce.AETH{Syndrome: roce.RNRNAK(1)}})
		send(ib.RNRTimer(1))
		send(100 * time.Millisecond) // the answer to the one before was lost
	}
	if r := s.explain(); r.Verdict.Outcome != "unknown" || r.Verdict.Cause != "unanswered" {
		t.Errorf("%s %s, %s; found %s", r.Verdict.Outcome, r.Verdict.Cause, r.Verdict.Where, names(r))
	}
}
