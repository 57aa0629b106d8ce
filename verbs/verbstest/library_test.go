package verbstest_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/rdmacm/stream"
	"github.com/softhca/softhca/verbs"
)

// managers returns the connection managers of two adapters that are checked.
func (r *rig) managers() (a, b *rdmacm.Manager) {
	n := verbs.NewNetwork()
	open := func(addr string) *rdmacm.Manager {
		ctx, err := verbs.Open(verbs.Config{Network: n, Addr: addr}, r.check)
		must.Do(r.t, err)
		r.t.Cleanup(func() { _ = ctx.Close() }) // the test may have closed it
		m, err := rdmacm.New(ctx)
		must.Do(r.t, err)
		return m
	}
	return open("10.0.0.1"), open("10.0.0.2")
}

// wantNone requires that nothing was found.
func (r *rig) wantNone() {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.found {
		r.t.Errorf("a right program has the finding:\n%v", f)
	}
}

// TestStreamsAreNotTheProgram destroys the queue pair of a connection of package stream while a goroutine reads from
// it. The package then uses the queue pair, and that is no bug of the program.
func TestStreamsAreNotTheProgram(t *testing.T) {
	r := newRig(t)
	server, client := r.managers()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := stream.ListenOn(ctx, server, "10.0.0.1:7471")
	must.Do(t, err)
	accepted := make(chan *stream.Conn, 1)
	go func() {
		c, err := l.Accept(ctx)
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	c, err := stream.DialOn(ctx, client, "10.0.0.1:7471")
	must.Do(t, err)
	ended := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		ended <- err
	}()
	must.Do(t, c.QP().Destroy())
	must.Fail(t, <-ended, rdmacm.ErrClosed, "a read of a connection without a queue pair")
	must.Do(t, c.Close())
	must.Do(t, (<-accepted).Close())
	must.Do(t, l.Close())
	for _, m := range []*rdmacm.Manager{client, server} {
		must.Do(t, errors.Join(m.Close(), m.Devices()[0].Close()))
	}
	r.wantNone()
}

// TestManagersMayEndFirst closes a connection manager while a region of the program is in its protection domain.
func TestManagersMayEndFirst(t *testing.T) {
	r := newRig(t)
	m, _ := r.managers()
	id, err := m.CreateID(nil, rdmacm.TCP)
	must.Do(t, err)
	must.Do(t, id.BindAddr(netip.MustParseAddrPort("10.0.0.1:7471")))
	must.Do(t, id.CreateQP(nil, &verbs.QPInitAttr{Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}}))
	pd, err := id.PD()
	must.Do(t, err)
	_, err = pd.RegMR(make([]byte, 64), 0)
	must.Do(t, err)
	device := m.Devices()[0]
	must.Fail(t, m.Close(), verbs.ErrBusy, "closing a connection manager whose protection domain is in use")
	must.Do(t, device.Close())
	r.wantNone()
}
