package pipe_test

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/pipe"
	"github.com/softhca/softhca/internal/must"
)

// arrived returns how many datagrams wait at a port, all of which must be for
// dst.
func arrived(t *testing.T, p *pipe.Port, dst netip.Addr) int {
	t.Helper()
	ds := make([]fabric.Datagram, 64)
	n, err := p.Receive(ds)
	must.Do(t, err)
	for i := range ds[:n] {
		if ds[i].Dst != dst {
			t.Errorf("a datagram for %v arrived, not for %v", ds[i].Dst, dst)
		}
	}
	return n
}

func TestEveryMemberOfAGroupHears(t *testing.T) {
	n := pipe.NewNetwork(pipe.Options{})
	a, b, c := attach(t, n, "10.0.0.1"), attach(t, n, "10.0.0.2"), attach(t, n, "10.0.0.3")
	group := netip.MustParseAddr("239.1.2.3")
	way := path(a, b)
	way.Dst = group
	batch := fabric.NewBatch(1<<12, a.Caps())
	send := func(step string, want [3]int) {
		t.Helper()
		put(t, batch, way, 64, 3)
		must.Do(t, a.Send(batch))
		if got := [3]int{arrived(t, a, group), arrived(t, b, group), arrived(t, c, group)}; got != want {
			t.Errorf("%s: %v datagrams, want %v", step, got, want)
		}
	}
	send("nobody is a member", [3]int{})
	must.Do(t, b.Join(group))
	must.Do(t, c.Join(group))
	must.Do(t, c.Join(group))
	send("b and c are members", [3]int{0, 1, 1})
	must.Do(t, a.Join(group))
	send("the sender is one too", [3]int{1, 1, 1})
	must.Do(t, b.Leave(group))
	must.Do(t, c.Leave(group))
	send("b has left, c once of twice", [3]int{1, 0, 1})
	must.Do(t, c.Leave(group))
	must.Do(t, a.Close())
	if err := b.Leave(group); !errors.Is(err, ib.EINVAL) {
		t.Errorf("leave again: %v, want EINVAL", err)
	}
	must.Fail(t, a.Join(group), fabric.ErrClosed, "join after close")
	must.Fail(t, a.Leave(group), fabric.ErrClosed, "leave after close")
	if s := a.Stats(); s.SentPackets != 12 || s.SendErrors != 0 {
		t.Errorf("%d packets counted as sent and %d as refused, not 12 and 0", s.SentPackets, s.SendErrors)
	}
	if err := b.Join(netip.MustParseAddr("ff0e::1")); !errors.Is(err, ib.EADDRNOTAVAIL) {
		t.Errorf("join a group of the other family: %v, want EADDRNOTAVAIL", err)
	}
}

// TestGroupsComeAndGoDuringTraffic is for the race detector.
func TestGroupsComeAndGoDuringTraffic(t *testing.T) {
	n := pipe.NewNetwork(pipe.Options{})
	a := attach(t, n, "10.0.0.1")
	group := netip.MustParseAddr("239.1.2.3")
	var wg sync.WaitGroup
	for i := range 4 {
		p := attach(t, n, fmt.Sprintf("10.0.1.%d", i))
		wg.Go(func() {
			for range 200 {
				if err := errors.Join(p.Join(group), p.Leave(group)); err != nil {
					t.Error(err)
				}
			}
			if err := errors.Join(p.Join(group), p.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	batch := fabric.NewBatch(1<<12, a.Caps())
	way := fabric.Path{Src: a.Caps().Addrs[0], Dst: group, HopLimit: 64}
	for range 500 {
		put(t, batch, way, 64, 3)
		must.Do(t, a.Send(batch))
	}
	wg.Wait()
}
