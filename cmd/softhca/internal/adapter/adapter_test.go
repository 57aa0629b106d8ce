package adapter

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// loopback returns address i of those that no other test process uses.
func loopback(i int) string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 128+pid>>8&31, pid&255, i)
}

// on returns an Opener of adapters on a network of this process, nil for that of
// the host. where gets the addresses that adapters are opened on.
func on(n *verbs.Network, addr string, where *string) Opener {
	return Opener{Addr: addr, Open: func(addr string) (*verbs.Context, func() error, error) {
		if where != nil {
			*where = addr
		}
		dev, err := verbs.Open(verbs.Config{Addr: addr, Network: n})
		if err != nil {
			return nil, nil, err
		}
		return dev, dev.Close, nil
	}}
}

// TestServerAdapter opens servers and looks where: at the user's choice, else at an
// interface.
func TestServerAdapter(t *testing.T) {
	for addr, listening := range map[string]string{"10.0.0.1,fd00::1": "listening on 10.0.0.1, fd00::1, port 7", "": "listening on "} {
		var where string
		st, err := on(verbs.NewNetwork(), addr, &where).Server(7)
		if err != nil {
			t.Errorf("%q: %v", addr, err)
			continue
		}
		if st.Local.String() != "[::]:7" || addr != "" && where != addr || where == "" {
			t.Errorf("%q: on %s, binds to %v", addr, where, st.Local)
		}
		if text := st.Listening(); !strings.HasPrefix(text, listening) {
			t.Errorf("%q: %s", addr, text)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestClientAdapter opens clients: at the user's choice, else by the kernel's route.
func TestClientAdapter(t *testing.T) {
	for _, c := range []struct{ addr, host, where string }{
		{"10.0.0.2", "10.0.0.1", "10.0.0.2"}, {"10.0.0.2,10.0.0.3", "10.0.0.1", "10.0.0.2,10.0.0.3"}, {"", loopback(1), "127.0.0.1"},
	} {
		var where string
		st, err := on(verbs.NewNetwork(), c.addr, &where).Client(t.Context(), c.host, 7174)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		if where != c.where || st.Peer.String() != c.host+":7174" {
			t.Errorf("%+v: on %s, peer %v", c, where, st.Peer)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestRefusals asks for what cannot be.
func TestRefusals(t *testing.T) {
	taken, err := verbs.Open(verbs.Config{Addr: loopback(2), Exclusive: true})
	must.Do(t, err)
	defer taken.Close()
	n := verbs.NewNetwork()
	pipe := on(n, "10.0.0.1", nil)
	client := func(o Opener, host string) error {
		_, err := o.Client(t.Context(), host, 7174)
		return err
	}
	for _, c := range []struct {
		err   error
		is    error // nil: any
		wants string
	}{
		{client(pipe, "no such host"), nil, "neither an IP address nor a name"},
		{client(pipe, "0.0.0.0"), ib.EINVAL, "cannot be a server's address"},
		{client(on(nil, loopback(2), nil), loopback(2)), ib.EADDRINUSE, "give the server --addr 127.0.0.1 and the client --addr 127.0.0.2"},
		{client(on(nil, loopback(2), nil), "192.0.2.1"), ib.EADDRINUSE, "end the other process"},
		{client(on(nil, "192.0.2.1", nil), loopback(2)), ib.EADDRNOTAVAIL, "no interface has address"},
	} {
		if c.err == nil || c.is != nil && !errors.Is(c.err, c.is) || !strings.Contains(c.err.Error(), c.wants) {
			t.Errorf("%v, want %q", c.err, c.wants)
		}
	}
	six := netip.IPv6Loopback()
	if err := advise(fmt.Errorf("taken: %w", ib.EADDRINUSE), six, six); !strings.Contains(err.Error(), "127.0.0.1 and 127.0.0.2") {
		t.Errorf("two adapters on ::1: %v", err)
	}
}

func TestLookup(t *testing.T) {
	for _, c := range []struct {
		host string
		like netip.Addr
		want string
	}{
		{"10.1.2.3", netip.Addr{}, "10.1.2.3"},
		{"::ffff:10.1.2.3", netip.Addr{}, "10.1.2.3"},
		{"::0", netip.Addr{}, "::"},
		{"localhost", netip.MustParseAddr("10.0.0.1"), "127.0.0.1"},
	} {
		if a, err := lookupHost(t.Context(), c.host, c.like); err != nil || a.String() != c.want {
			t.Errorf("%s: %v, %v, want %s", c.host, a, err, c.want)
		}
	}
}

// TestFailures reads what events that end a connection say.
func TestFailures(t *testing.T) {
	peer := netip.MustParseAddrPort("10.0.0.1:7174")
	own := errors.New("the adapter's own word")
	for _, c := range []struct {
		f    Failure
		is   error // nil: no errno
		want string
	}{
		{Failure{Type: rdmacm.EventRejected, Status: int(mad.RejInvalidServiceID)}, ib.ECONNREFUSED, "RDMA_CM_EVENT_REJECTED, error 8: nothing listens on 10.0.0.1:7174"},
		{Failure{Type: rdmacm.EventRejected, Status: int(mad.RejConsumer)}, ib.ECONNREFUSED, "10.0.0.1:7174 refused the connection"},
		{Failure{Type: rdmacm.EventUnreachable, Status: -110}, ib.ETIMEDOUT, "does not answer"},
		{Failure{Type: rdmacm.EventUnreachable, Status: int(mad.SIDRUnsupportedService)}, nil, "error 1: nothing listens"},
		{Failure{Type: rdmacm.EventUnreachable, Status: int(2)}, nil, "refused the request"},
		{Failure{Type: rdmacm.EventDisconnected}, nil, "ended the connection"},
		{Failure{Type: rdmacm.EventDeviceRemoval}, nil, "the adapter was removed"},
		{Failure{Type: rdmacm.EventAddrError, Status: -19}, ib.ENODEV, "no such device"},
		{Failure{Type: rdmacm.EventConnectError, Status: -1, Err: own}, own, "the adapter's own word"},
		{Failure{Type: rdmacm.EventConnectRequest}, nil, "an unexpected event"},
	} {
		c.f.Peer = peer
		if text := c.f.Error(); !strings.Contains(text, c.want) || c.is != nil && !errors.Is(&c.f, c.is) {
			t.Errorf("%s: want %q, %v", text, c.want, c.is)
		}
	}
}

// next returns the next event of a channel, which must have the given type.
func next(t *testing.T, ch *rdmacm.EventChannel, want rdmacm.EventType) *rdmacm.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	e, err := ch.Get(ctx)
	if err != nil || e.Type != want {
		t.Fatalf("%+v, %v; want %v", e, err, want)
	}
	e.Ack()
	return e
}

// TestWaitEither waits for an event that comes, and for nothing. What it says of the event
// is copied: the event is acknowledged.
func TestWaitEither(t *testing.T) {
	n := verbs.NewNetwork()
	server, err := on(n, "10.0.0.1", nil).Server(7174)
	must.Do(t, err)
	defer server.Close()
	requests := server.NewEventChannel()
	listener, err := server.Bind(requests, rdmacm.TCP)
	must.Do(t, err)
	o := on(n, "10.0.0.2", nil)
	o.Response = Response{Timeout: 14, Retries: 3}
	st, err := o.Client(t.Context(), "10.0.0.1", 7174)
	must.Do(t, err)
	defer st.Close()
	ch := st.NewEventChannel()
	id, err := st.NewID(ch, rdmacm.TCP)
	must.Do(t, errors.Join(err, listener.Listen(0), id.ResolveAddr(st.Local, st.Peer)))
	next(t, ch, rdmacm.EventAddrResolved)
	must.Do(t, id.ResolveRoute())
	next(t, ch, rdmacm.EventRouteResolved)
	res := NewResources(st.Device)
	queue := res.NewQueue(1)
	attr := &verbs.QPInitAttr{Type: ib.RC, SendCQ: queue.CQ, RecvCQ: queue.CQ}
	must.Do(t, errors.Join(res.Err(), id.CreateQP(nil, attr), id.Connect(nil)))
	request := next(t, requests, rdmacm.EventConnectRequest).ID
	must.Do(t, errors.Join(request.Reject(nil), request.Destroy()))
	_, event, err := queue.WaitEither(t.Context(), ch, make([]verbs.WC, 1))
	if err != nil || event == nil || event.Type != rdmacm.EventRejected {
		t.Fatalf("%v, %v", event, err)
	}
	f := NewFailure(event)
	event.Ack()
	if f.Peer.String() != "10.0.0.1:7174" || f.Type != rdmacm.EventRejected || f.Status != int(mad.RejConsumer) {
		t.Errorf("%+v", f)
	}
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, _, err := queue.WaitEither(ctx, ch, make([]verbs.WC, 1)); !errors.Is(err, why) {
		t.Errorf("a wait that was cancelled ends with %v", err)
	}
}
