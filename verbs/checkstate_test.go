package verbs

import (
	"slices"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/must"
)

// TestPostedRightAfterTheError posts while the adapter is at work: it has added the completion of an error, and has not
// moved the queue pair yet. The checker waits for the work's end.
func TestPostedRightAfterTheError(t *testing.T) {
	var found []string
	cfg := Config{Network: NewNetwork(), Addr: "10.0.0.1"}
	WithCheck(func(f *Finding) { found = append(found, f.Name) })(&cfg)
	e := newEndpoint(t, cfg, ib.RC)
	e.walk(t, e.attrs(e), ib.RTS)
	added, release := make(chan struct{}), make(chan struct{})
	worked := make(chan error, 1)
	go func() {
		worked <- device.Of(e.ctx).Do(func(now clock.Instant) error {
			e.cq.obj.CQ.Push(now, &ib.WC{Status: ib.WCRetryExcErr, QPN: e.qp.QPN()})
			close(added)
			<-release
			return e.qp.obj.QP.Force(now, ib.ERR)
		})
	}()
	<-added
	if n := poll(t, e.cq, make([]WC, 1)); n != 1 {
		t.Fatalf("polled %d completions: want that of the error", n)
	}
	posted := make(chan error, 1)
	go func() { posted <- e.qp.PostSend(e.write(1, 8, e)) }()
	select {
	case err := <-posted:
		t.Errorf("in the middle of the adapter's work a post returns %v", err)
		posted <- err
	case <-time.After(20 * time.Millisecond):
	}
	close(release)
	must.Do(t, <-worked)
	must.Do(t, <-posted)
	if !slices.Contains(found, "posted-after-error") {
		t.Errorf("found %q: want posted-after-error", found)
	}
}
