package perf

import (
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
)

// TestV15_Migration cuts the first path in the middle of measurements: they
// succeed, and both sides report the migration.
func TestV15_Migration(t *testing.T) {
	addrs := [2]string{"10.0.0.1,10.0.1.1", "10.0.0.2,10.0.1.2"}
	for _, c := range []struct {
		rules string
		plan  Plan
		moved uint64
	}{
		{"drop path=primary nth=6000 every=1", Plan{Op: Write, QPs: 3}, 3},
		{"drop path=primary nth=300 every=1 dir=in", Plan{Op: Read}, 1},
		{"drop path=primary nth=50 every=1", Plan{Op: Send, Latency: true}, 1},
		{"drop path=primary nth=2000 every=1", Plan{Type: ib.RD, Op: Write, QPs: 3}, 1}, // the channel that they share
		{"drop path=alternate", Plan{Op: Write}, 0},
	} {
		p := c.plan
		p.Alt, p.Timeout, p.Retry, p.Duration = true, 15, 3, 400*time.Millisecond
		s, client, server := newRigAt(t, addrs, c.rules, "").measure(t.Context(), p, p.Op)
		for ; c.moved > 0 && s.Client.Migrations == 0 && client == nil && p.Duration < longestTry; p.Duration *= 4 {
			// On a busy machine too few packets left to reach the cut.
			s, client, server = newRigAt(t, addrs, c.rules, "").measure(t.Context(), p, p.Op)
		}
		if client != nil || server != nil {
			t.Errorf("%s, %+v: client: %v; server: %v", c.rules, p, client, server)
			continue
		}
		m := s.Migrated
		if m == nil || m.QPs != c.moved || s.Client.Migrations != c.moved || s.Server.Migrations != c.moved {
			t.Errorf("%s, %+v: %d queue pairs are to move, the result is %v", c.rules, p, c.moved, s)
			continue
		}
		// Of messages to and fro the cut may take an answer, which the peer asks for again.
		again := m.Again > 0 || p.Latency
		if c.moved > 0 && (m.After <= 0 || m.After > s.Seconds || m.Pause <= 0 || !again) {
			t.Errorf("%s, %+v: %+v of %.3f s", c.rules, p, m, s.Seconds)
		}
	}
}

// TestOneSideHasNoSecondAddress checks that the error has advice.
func TestOneSideHasNoSecondAddress(t *testing.T) {
	r := newRigAt(t, [2]string{"10.0.0.1,10.0.1.1", "10.0.0.2"}, "", "")
	_, client, server := r.measure(t.Context(), Plan{Op: Write, Alt: true, Duration: time.Second}, Write)
	for who, err := range map[string]error{"client": client, "server": server} {
		if err == nil || !strings.Contains(err.Error(), "name one with --alt") {
			t.Errorf("the %s says %v", who, err)
		}
	}
}
