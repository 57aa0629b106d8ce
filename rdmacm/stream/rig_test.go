package stream

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// waitLimit bounds every wait for something that must happen.
const waitLimit = 20 * time.Second

// port is the port of the tests' listeners.
const port = 7471

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// soon returns a context that ends after waitLimit.
func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	t.Cleanup(cancel)
	return ctx
}

// waitUntil waits until a condition holds.
func waitUntil(t testing.TB, so func() bool) {
	t.Helper()
	for ctx := soon(t); !so(); {
		must.Do(t, ctx.Err())
	}
}

// host is a Manager of one adapter.
type host struct {
	t    testing.TB
	m    *rdmacm.Manager
	addr netip.Addr // the first of the adapter
}

// newHost opens an adapter, which is closed at the end of the test.
func newHost(t testing.TB, cfg verbs.Config) *host {
	t.Helper()
	m, err := rdmacm.Open(cfg)
	must.Do(t, err)
	t.Cleanup(func() {
		if err := m.Close(); err != nil && !errors.Is(err, rdmacm.ErrClosed) && !errors.Is(err, ib.ENODEV) {
			t.Errorf("close: %v", err)
		}
	})
	return &host{t, m, m.Devices()[0].QueryGID(0).Addr()}
}

// newFaultyPair returns two hosts on a network in memory; fault rules apply to the packets
// and verbs of a.
func newFaultyPair(t testing.TB, rules string) (a, b *host) {
	t.Helper()
	n := verbs.NewNetwork()
	return newHost(t, verbs.Config{Network: n, Addr: "10.0.0.1,fd00::1", Faults: verbs.Faults{Rules: rules, Seed: 1}}),
		newHost(t, verbs.Config{Network: n, Addr: "10.0.0.2,fd00::2"})
}

// newPair returns two hosts on a network in memory.
func newPair(t testing.TB) (a, b *host) { return newFaultyPair(t, "") }

// addresses numbers the loopback addresses that this process has used.
var addresses atomic.Uint32

// loopback returns an address of 127.192.0.0/10 that no other test and no concurrent
// process with these tests uses.
func loopback() string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 192+pid>>8&63, pid&255, addresses.Add(1)%250+1)
}

// networks are the networks on which streams are tested.
var networks = map[string]func(testing.TB) (a, b *host){
	"pipe": newPair,
	"udp": func(t testing.TB) (a, b *host) {
		udp := func() verbs.Config { return verbs.Config{Addr: loopback(), Wire: verbs.WireUDP} }
		return newHost(t, udp()), newHost(t, udp())
	},
	"host": func(t testing.TB) (a, b *host) { // shared memory on Linux
		return newHost(t, verbs.Config{Addr: loopback()}), newHost(t, verbs.Config{Addr: loopback()})
	},
}

// at returns the host's address with a port.
func (h *host) at(port uint16) netip.AddrPort { return netip.AddrPortFrom(h.addr, port) }

// cm returns the counters of the adapter's CM, and the number of its connections, without
// those in TIMEWAIT.
func (h *host) cm() (n cm.Counters, conns int) {
	h.t.Helper()
	d := device.Of(h.m.Devices()[0])
	must.Do(h.t, d.Control(func(clock.Instant) error {
		n, conns = d.HCA.CM().Counters(), d.HCA.CM().Conns()
		return nil
	}))
	return n, conns
}

// id returns a synchronous ID.
func (h *host) id() *rdmacm.ID {
	h.t.Helper()
	id, err := h.m.CreateID(nil, rdmacm.TCP)
	must.Do(h.t, err)
	return id
}

// listener returns an ID that listens.
func (h *host) listener() *rdmacm.ID {
	h.t.Helper()
	id := h.id()
	must.Do(h.t, id.BindAddr(h.at(port)))
	must.Do(h.t, id.Listen(0))
	return id
}

// resolved returns an ID with a QP that may connect to a peer.
func (h *host) resolved(to netip.AddrPort) *rdmacm.ID {
	h.t.Helper()
	id := h.id()
	must.Do(h.t, id.ResolveAddr(netip.AddrPort{}, to))
	must.Do(h.t, id.ResolveRoute())
	return withQP(h.t, id)
}

// withQP gives an ID a QP.
func withQP(t testing.TB, id *rdmacm.ID) *rdmacm.ID {
	t.Helper()
	must.Do(t, id.CreateQP(nil, &verbs.QPInitAttr{
		SQSig: ib.SigAll, Cap: verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInlineData: 256},
	}))
	return id
}

// destroy destroys IDs.
func destroy(t testing.TB, ids ...*rdmacm.ID) {
	t.Helper()
	for _, id := range ids {
		must.Do(t, id.Destroy())
	}
}
