package verbs

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
)

// TestC1_C12_MADsOverUDP checks that QP1 works over the kernel's UDP while every
// program sleeps: a request is answered, and a request to an unused address times out.
// The counters show both.
func TestC1_C12_MADsOverUDP(t *testing.T) {
	a, b := newUDPPair(t, ib.UD)
	nowhere := loopback() // no adapter is on it
	for _, c := range []struct {
		to   string
		want error
	}{{b.ctx.QueryGID(0).Addr().String(), nil}, {nowhere, gsi.ErrTimeout}} {
		ended := make(chan error, 1)
		must.Do(t, a.ctx.dev().Control(func(now clock.Instant) error { return ask(a.ctx, now, c.to, ended) }))
		select {
		case err := <-ended:
			if !errors.Is(err, c.want) {
				t.Errorf("a request to %s ends with %v, want %v", c.to, err, c.want)
			}
		case <-time.After(waitLimit):
			t.Fatalf("a request to %s does not end", c.to)
		}
	}
	for name, least := range map[string]uint64{"mad_sent": 3, "mad_received": 1, "mad_retries": 1, "mad_timeouts": 1} {
		if n := a.counter(t, name); n < least {
			t.Errorf("%s is %d, want at least %d", name, n, least)
		}
	}
	b.reaches(t, "mad_unsupported", 1)
}

// ask sends a request of a class for which b has no agent.
func ask(c *Context, now clock.Instant, to string, ended chan<- error) error {
	a, err := c.dev().HCA.GSI().Register(gsi.AgentConfig{Class: mad.ClassPerf, Version: 1})
	if err != nil {
		return err
	}
	m := new(mad.MAD)
	m.PutHeader(mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassPerf, ClassVersion: 1, Method: mad.MethodGet, TID: a.TID(1)})
	_, err = a.Request(now, gsi.Address{Remote: netip.MustParseAddr(to)}, m, gsi.Retry{Timeout: 50 * time.Millisecond, Retries: 1},
		func(now clock.Instant, r *gsi.Received, err error) {
			if err == nil && r.MAD.Header().Status != mad.StatusUnsupportedAttribute {
				err = errors.New("answered with " + r.MAD.Header().Status.String())
			}
			a.Close(now)
			ended <- err
		})
	return err
}

// TestNodeGUID checks that an adapter has the same GUID each time it is opened on an
// address, and another GUID on another address, unless the configuration or the
// environment sets it.
func TestNodeGUID(t *testing.T) {
	guid := func(addr string) ib.GUID {
		c, err := Open(Config{Addr: addr, Network: NewNetwork()})
		must.Do(t, err)
		attr, err := c.QueryDevice()
		must.Do(t, err)
		must.Do(t, c.Close())
		return attr.NodeGUID
	}
	if one := guid("10.0.0.1"); one == 0 || one != guid("10.0.0.1") || one == guid("10.0.0.2") {
		t.Errorf("GUIDs %v, %v and of another address %v", one, guid("10.0.0.1"), guid("10.0.0.2"))
	}
	const want = ib.GUID(0x505400fffe770002)
	for _, env := range []string{want.String(), "0x0", "no GUID"} {
		t.Setenv(GUIDEnv, env)
		c, err := Open(Config{Addr: "10.0.0.1", Network: NewNetwork()})
		if env != want.String() {
			if !errors.Is(err, ib.EINVAL) || !strings.Contains(err.Error(), GUIDEnv) {
				t.Errorf("%s=%q: %v", GUIDEnv, env, err)
			}
			continue
		}
		must.Do(t, err)
		if attr, err := c.QueryDevice(); attr.NodeGUID != want || err != nil {
			t.Errorf("the environment says %v, the adapter %v (%v)", want, attr.NodeGUID, err)
		}
		must.Do(t, c.Close())
	}
	c, err := Open(Config{Addr: "10.0.0.1", Network: NewNetwork(), NodeGUID: want + 1})
	must.Do(t, err)
	if attr, err := c.QueryDevice(); attr.NodeGUID != want+1 || err != nil {
		t.Errorf("the configuration says %v, the adapter %v (%v)", want+1, attr.NodeGUID, err)
	}
	must.Do(t, c.Close())
}

// TestC3_C7_CMCounters checks that the counters of the adapter include the messages
// that the connection manager sent and received.
func TestC3_C7_CMCounters(t *testing.T) {
	a, b := newUDPPair(t, ib.UD)
	path := cm.Path{Local: a.ctx.QueryGID(0).Addr(), Remote: b.ctx.QueryGID(0).Addr(), MTU: ib.MTU1024}
	must.Do(t, a.ctx.dev().Control(func(now clock.Instant) error {
		return a.ctx.dev().HCA.CM().NewConn(nil).SendREQ(now, &cm.REQParams{Service: 1, QPN: a.qp.QPN(), Path: path})
	}))
	a.reaches(t, "cm_rx_msgs_rej", 1) // no listener
	for e, name := range map[*endpoint]string{a: "cm_tx_msgs_req", b: "cm_tx_msgs_rej"} {
		if n := e.counter(t, name); n != 1 {
			t.Errorf("%s is %d, want 1", name, n)
		}
	}
	b.reaches(t, "cm_rx_msgs_req", 1)
}
