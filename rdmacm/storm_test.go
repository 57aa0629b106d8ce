package rdmacm

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"sync"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

var (
	stormSeed  = flag.Uint64("storm-seed", 0, "seed of TestC11_Storm; 0 draws one")
	stormCalls = flag.Int("storm-calls", 600, "calls of each goroutine of TestC11_Storm")
)

// storm is two hosts on whose IDs several goroutines make calls in random order, while
// their events are taken and acknowledged.
type storm struct {
	t     testing.TB
	hosts [2]*stormHost
	calls sync.WaitGroup // the calls that may wait for the peer
	quit  context.Context

	mu  sync.Mutex // guards what follows
	ids []*ID
}

// stormHost is one of the hosts, with a second event channel.
type stormHost struct {
	*host
	other *EventChannel

	mu        sync.Mutex // guards what follows
	destroyed map[*ID]bool
	ended     map[*ID]bool // DISCONNECTED was seen
	seen      [numEvents]int
}

// newStorm opens the hosts and starts to take events.
func newStorm(t testing.TB) (s *storm, takers *sync.WaitGroup) {
	s, takers = &storm{t: t}, new(sync.WaitGroup)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	s.quit = ctx
	a, b := newPair(t)
	for i, h := range []*host{a, b} {
		s.hosts[i] = &stormHost{host: h, other: h.m.NewEventChannel(), destroyed: make(map[*ID]bool), ended: make(map[*ID]bool)}
		takers.Go(func() { s.take(s.hosts[i]) })
	}
	return s, takers
}

// take acknowledges events until the Manager is closed.
func (s *storm) take(h *stormHost) {
	for {
		select {
		case <-h.ch.Ready():
		case <-h.other.Ready():
		case <-h.m.done:
			return
		}
		for _, ch := range []*EventChannel{h.ch, h.other} {
			for e, ok := ch.TryGet(); ok; e, ok = ch.TryGet() {
				h.check(e)
				if e.Type == EventConnectRequest {
					s.add(e.ID)
					serve(e.ID, e.Param.QPN)
				}
				e.Ack()
			}
		}
	}
}

// serve accepts two of three requests; the others stay pending until something ends
// them.
func serve(id *ID, peer ib.QPN) {
	if peer%3 > 0 {
		attr := small()
		attr.Type = id.at.typ
		_ = id.CreateQP(nil, attr)
		_ = id.Accept(nil) // the ID may already be destroyed
	}
}

// check checks that no event of an ID follows Destroy, and that DISCONNECTED comes once,
// before TIMEWAIT_EXIT.
func (h *stormHost) check(e *Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.destroyed[e.about.id] {
		h.t.Errorf("%v of an ID that was destroyed", e.Type)
	}
	h.seen[e.Type]++
	over := h.ended[e.ID]
	switch e.Type {
	case EventDisconnected:
		if over {
			h.t.Error("DISCONNECTED a second time")
		}
		h.ended[e.ID] = true
	case EventTimewaitExit:
		if !over {
			h.t.Error("TIMEWAIT_EXIT without DISCONNECTED")
		}
	case EventEstablished, EventConnectResponse, EventConnectRequest:
		if over {
			h.t.Errorf("%v after DISCONNECTED", e.Type)
		}
	}
}

func (s *storm) add(id *ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids = append(s.ids, id)
}

// pick returns one of the IDs, nil if there is none; with remove, it removes the ID.
func (s *storm) pick(r *rand.Rand, remove bool) *ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ids) == 0 {
		return nil
	}
	i := r.IntN(len(s.ids))
	id := s.ids[i]
	if remove {
		s.ids[i] = s.ids[len(s.ids)-1]
		s.ids = s.ids[:len(s.ids)-1]
	}
	return id
}

// of returns the host of an ID.
func (s *storm) of(id *ID) *stormHost {
	if id.m == s.hosts[0].m {
		return s.hosts[0]
	}
	return s.hosts[1]
}

// destroy destroys an ID. Errors may come from an adapter or a Manager that is gone.
func (s *storm) destroy(id *ID) {
	h := s.of(id)
	err := id.Destroy()
	if err != nil && !errors.Is(err, errDestroyed) {
		s.t.Errorf("destroy: %v", err)
	}
	if !isClosed(h.m.done) {
		h.mu.Lock()
		h.destroyed[id] = true
		h.mu.Unlock()
	}
}

// create creates an ID. One in four is synchronous.
func (s *storm) create(r *rand.Rand) {
	h := s.hosts[r.IntN(2)]
	ps := []PortSpace{TCP, TCP, TCP, UDP}[r.IntN(4)]
	ch := []*EventChannel{h.ch, h.ch, h.other, nil}[r.IntN(4)]
	id, err := h.m.CreateID(ch, ps)
	if err != nil {
		return // the Manager is closed
	}
	_ = id.SetAckTimeout(10) // fails for UDP
	_ = id.SetResponseTimeout(12, 3)
	s.add(id)
}

// stormPort returns one of a few ports, so that listeners and clients meet.
func stormPort(r *rand.Rand) uint16 { return port + uint16(r.IntN(3)) }

// client takes the steps to connect an ID; each step may be refused.
func (s *storm) client(id *ID, r *rand.Rand) {
	to := s.hosts[r.IntN(2)].at(stormPort(r))
	param := &ConnParam{QPN: ib.QPN(0x100 + r.IntN(1000)), ResponderResources: 1, InitiatorDepth: 1}
	s.calls.Go(func() { // the calls may wait for the peer
		_ = id.ResolveAddr(netip.AddrPort{}, to)
		_ = id.ResolveRoute()
		if param.QPN%2 == 0 {
			_ = id.CreateQP(nil, small()) // fails for UDP
		}
		_ = id.Connect(param)
	})
}

// stormActs are the actions of the goroutines on IDs. Any of them may be refused.
var stormActs = []func(s *storm, id *ID, r *rand.Rand){
	(*storm).client, (*storm).client, (*storm).client,
	func(s *storm, id *ID, r *rand.Rand) {
		at := s.of(id).at(stormPort(r))
		if r.IntN(2) == 0 {
			at = netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port())
		}
		_ = id.BindAddr(at)
		_ = id.Listen(r.IntN(4))
	},
	func(s *storm, id *ID, _ *rand.Rand) {
		s.calls.Go(func() {
			if got, err := id.GetRequest(s.quit); err == nil {
				s.add(got)
			}
		})
	},
	func(_ *storm, id *ID, _ *rand.Rand) {
		attr := small()
		attr.Type = id.at.typ
		_ = id.CreateQP(nil, attr)
	},
	func(s *storm, id *ID, _ *rand.Rand) { s.calls.Go(func() { _ = id.Accept(nil) }) },
	func(s *storm, id *ID, _ *rand.Rand) { s.calls.Go(func() { _ = id.Accept(&ConnParam{QPN: 0x99}) }) },
	func(s *storm, id *ID, _ *rand.Rand) { s.calls.Go(func() { _ = id.Disconnect() }) },
	func(_ *storm, id *ID, _ *rand.Rand) { _ = id.Establish() },
	func(_ *storm, id *ID, _ *rand.Rand) { _ = id.Reject([]byte("no")) },
	func(_ *storm, id *ID, _ *rand.Rand) { _ = id.Notify(ib.EventCommEst) },
	func(_ *storm, id *ID, _ *rand.Rand) { _ = id.DestroyQP() },
	func(_ *storm, id *ID, _ *rand.Rand) { _ = id.QP().Destroy() },
	func(_ *storm, id *ID, _ *rand.Rand) { _ = attrs(id, ib.RTR) },
	func(s *storm, id *ID, r *rand.Rand) {
		id.m.mu.Lock()
		waits := id.inbox.sync // and a call may have taken DISCONNECTED
		id.m.mu.Unlock()
		if h := s.of(id); !waits {
			_ = id.Migrate([]*EventChannel{h.ch, h.other}[r.IntN(2)])
		}
	},
	func(s *storm, id *ID, _ *rand.Rand) {
		s.calls.Go(func() { _ = id.JoinMulticast(netip.MustParseAddrPort("239.1.1.1:0"), nil) })
	},
	func(_ *storm, id *ID, _ *rand.Rand) { _ = id.LeaveMulticast(netip.MustParseAddrPort("239.1.1.1:0")) },
	func(_ *storm, id *ID, _ *rand.Rand) {
		_ = id.QP().PostRecv(recvNothing())
		_ = id.QP().PostSend(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendInline, InlineData: []byte("x")})
	},
	func(s *storm, id *ID, _ *rand.Rand) { s.calls.Go(func() { _, _ = id.GetRecvComp(s.quit) }) },
	func(_ *storm, id *ID, r *rand.Rand) {
		_, _, _ = id.LocalAddr(), id.PeerAddr(), id.Device()
		_, _, _ = id.Event(), id.SendCQ(), id.SetTOS(uint8(r.IntN(256)))
	},
}

// rage makes calls in random order.
func (s *storm) rage(r *rand.Rand) {
	for range *stormCalls {
		runtime.Gosched() // the network must keep up
		switch r.IntN(32) {
		case 0, 1:
			s.create(r)
		case 2:
			if id := s.pick(r, true); id != nil {
				s.destroy(id)
			}
		default:
			if id := s.pick(r, false); id != nil {
				stormActs[r.IntN(len(stormActs))](s, id, r)
			}
		}
	}
}

// TestC11_Storm makes all calls in random order in several goroutines, and destroys IDs,
// Managers or adapters meanwhile: nothing hangs, no event arrives that must not, and
// nothing is left.
func TestC11_Storm(t *testing.T) {
	seed := *stormSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	defer func() {
		if t.Failed() {
			t.Logf("to run it again: -storm-seed=%d", seed)
		}
	}()
	for name, end := range map[string]func(s *storm) error{
		"IDs":     func(*storm) error { return nil },
		"Manager": func(s *storm) error { return s.hosts[0].m.Close() },
		"adapter": func(s *storm) error { return s.hosts[0].m.Devices()[0].Close() },
		"engine": func(s *storm) error {
			err := device.Of(s.hosts[0].m.Devices()[0]).Do(func(clock.Instant) error { panic("broken") })
			must.Fail(t, err, ib.EIO, "the end")
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) { raging(t, seed, end) })
	}
}

// raging runs a storm, and calls end in the middle of it.
func raging(t *testing.T, seed uint64, end func(*storm) error) {
	s, takers := newStorm(t)
	ctx, cancel := context.WithCancel(context.Background())
	s.quit = ctx
	defer context.AfterFunc(soon(t), func() { panic("the storm does not end") })()
	var workers sync.WaitGroup
	for i := range 4 {
		workers.Go(func() { s.rage(rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	s.rage(rand.New(rand.NewPCG(seed, 99)))
	if err := end(s); err != nil && !errors.Is(err, ib.EBUSY) { // a PD in use
		t.Errorf("the end: %v", err)
	}
	workers.Wait()
	cancel()
	s.clear()
	for _, h := range s.hosts {
		h.calm()
	}
	takers.Wait()
	t.Logf("events by type: %v and %v", s.hosts[0].seen, s.hosts[1].seen)
}

// clear destroys the remaining IDs until no call waits and no event arrives.
func (s *storm) clear() {
	returned := make(chan struct{})
	go func() {
		s.calls.Wait()
		close(returned)
	}()
	r := rand.New(rand.NewPCG(0, 0))
	waitUntil(s.t, func() bool {
		for id := s.pick(r, true); id != nil; id = s.pick(r, true) {
			s.destroy(id)
		}
		return isClosed(returned) && s.hosts[0].m.IDs() == 0 && s.hosts[1].m.IDs() == 0
	})
}

// calm checks that a host has nothing left, and closes it.
func (h *stormHost) calm() {
	h.m.mu.Lock()
	ports, users, live := len(h.m.ports), h.ch.users+h.other.users, h.m.live
	h.m.mu.Unlock()
	if ports != 0 || users != 0 {
		h.t.Errorf("%d ports and %d users of channels are left", ports, users)
	}
	if !isClosed(h.m.done) && live > 0 {
		n, err := h.m.Devices()[0].Resources()
		must.Do(h.t, err)
		n.CMIDs = 0 // in TIMEWAIT
		if want := (verbs.Resources{PDs: n.PDs}); n != want || n.PDs > 1 {
			h.t.Errorf("left: %+v", n)
		}
		waitUntil(h.t, func() bool { return h.conns() == 0 })
	}
	if err := h.m.Close(); err != nil && !errors.Is(err, ErrClosed) && !errors.Is(err, ib.ENODEV) {
		h.t.Errorf("close: %v", err)
	}
}

// isClosed reports whether a channel without senders is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
