package flow

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/clock"
)

// recorder is a control whose window is one packet larger with each acknowledgement, and half
// of it after anything else that tells of congestion. It notes what it is told.
type recorder struct {
	told []string
	most int
}

func (c *recorder) note(format string, args ...any) {
	c.told = append(c.told, fmt.Sprintf(format, args...))
}

func (c *recorder) Acknowledged(_ clock.Instant, sent uint32, bytes int, packet uint32, bounds bool) int {
	c.note("sent %d", sent)
	c.note("acknowledged %d, bounds %v", bytes, bounds)
	c.most += int(packet)
	return c.most
}

func (c *recorder) Lost(sent, n uint32, limit int) int {
	c.note("sent %d", sent)
	c.note("lost %d", n)
	c.most = limit / 2
	return c.most
}

func (c *recorder) LostAll(sent uint32, limit int) int {
	c.note("sent %d", sent)
	c.note("lost all")
	c.most = limit / 2
	return c.most
}

func (c *recorder) Marked(int) int {
	c.note("marked")
	c.most /= 2
	return c.most
}

func (c *recorder) BeginRound() { c.note("round") }

func (c *recorder) RoundTrip(d, least, all time.Duration, bounds bool) int {
	c.note("round trip %v of %v in %v, bounds %v", d, least, all, bounds)
	return c.most
}

func (c *recorder) Window() int { return c.most }

// TestController shows the inputs of a sender's control, and that its window decides at once
// whether the next packet may go.
func TestController(t *testing.T) {
	s := &sender{at: clock.Never}
	s.Share = NewShare(s, 2, &s.at)
	s.Join(NewTable(1<<20), netip.MustParseAddr("10.0.0.2"))
	c := &recorder{most: 3000}
	s.steer(c)
	fill := func() (n int) {
		for s.Admit(0, 1000, false) {
			s.Charge(1000, 1)
			n++
		}
		return n
	}
	s.BeginRound()
	for _, step := range []struct {
		what string
		do   func()
		want int // packets that may follow
	}{
		{"a window of 3000", func() {}, 3},
		{"an acknowledgement of one of three", func() { s.Credit(0, 1, 3, 1000) }, 2},
		{"a round trip", func() { s.EndRound(2*time.Millisecond, time.Millisecond, 3*time.Millisecond) }, 0},
		{"everything is acknowledged", func() { s.Credit(0, 1, 1, 1000) }, 5},
		{"a loss", func() { s.Lost(1) }, 0},
		{"the rest arrives", func() { s.GoBack() }, 3},
		{"a mark, and the rest arrives", func() { s.Marked(1000); s.GoBack() }, 2},
		{"a loss of all", func() { s.LostAll(); s.GoBack() }, 1},
	} {
		step.do()
		if n := fill(); n != step.want {
			t.Errorf("%s: %d packets may follow, want %d; the window is %d", step.what, n, step.want, c.most)
		}
	}
	want := []string{
		"round", "sent 3", "acknowledged 1000, bounds true", "round trip 2ms of 1ms in 3ms, bounds true", "sent 2", "acknowledged 4000, bounds true",
		"sent 5", "lost 1", "marked", "sent 5", "lost all",
	}
	if !slices.Equal(c.told, want) {
		t.Errorf("the control was told %q, want %q", c.told, want)
	}
}
