package frames_test

import (
	"net"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/fabric/sandbox"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/interop/frames"
)

// Sync returns when all that passed before has been seen, and Reset forgets it.
func TestTapMissesNothing(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	tap, err := frames.Watch("lo")
	must.Do(t, err)
	to, err := net.Dial("udp", "127.0.0.1:4791")
	must.Do(t, err)
	defer func() { _ = to.Close() }()
	sent := 0
	for range 500 {
		// There is no listener: a write that reports it sends nothing.
		if _, err := to.Write(make([]byte, 64)); err == nil {
			sent++
		}
	}
	must.Do(t, tap.Sync(t.Context()))
	c := tap.Counts()
	if sent < 100 || c.BadOut != sent || c.BadIn != sent || c.Out+c.In != 0 || c.Missed != 0 || len(c.First) == 0 {
		t.Errorf("of %d packets, which loopback shows twice: %+v", sent, c)
	}
	fs := tap.Frames()
	if len(fs) != c.BadIn+c.BadOut || time.Since(fs[0].Time) > time.Minute {
		t.Errorf("%d frames kept of %d", len(fs), c.BadIn+c.BadOut)
	}
	tap.Reset()
	if c := tap.Counts(); c.BadIn+c.BadOut != 0 || len(tap.Frames()) != 0 {
		t.Errorf("after Reset there are %+v", c)
	}
}
