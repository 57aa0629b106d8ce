package device

import (
	"net"
	"net/netip"
	"sync"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/qp"
)

// addressWatch detects that the host loses or regains addresses of the adapter:
// an interface goes down, or an address is removed from it. It does not watch
// addresses that the host lacks when the adapter is opened.
type addressWatch struct {
	close func() // nil if the system does not report changes
	done  sync.WaitGroup
}

// watchAddresses starts watching the addresses of d's port.
func (d *Device) watchAddresses() {
	addrs := d.Port.Caps().Addrs
	next, closer, err := networkChanges()
	if err != nil {
		return // netlink is unavailable, as in a sandbox: paths fail by their timers
	}
	have := make(map[netip.Addr]bool)
	for _, a := range hostHas(addrs) {
		have[a] = true
	}
	w := &d.addresses
	w.close = closer
	w.done.Go(func() {
		for next() {
			d.addressesNow(have)
		}
	})
}

// stop ends the watch.
func (w *addressWatch) stop() {
	if w.close != nil {
		w.close()
		w.done.Wait()
	}
}

// addressesNow compares the host's addresses with the previous ones.
func (d *Device) addressesNow(have map[netip.Addr]bool) {
	now := make(map[netip.Addr]bool)
	addrs := make([]netip.Addr, 0, len(have))
	for a := range have {
		addrs = append(addrs, a)
	}
	for _, a := range hostHas(addrs) {
		now[a] = true
	}
	for a, had := range have {
		if had == now[a] {
			continue
		}
		have[a] = now[a]
		// After Close there are no paths.
		_ = d.drv.Do(func(at clock.Instant) {
			d.HCA.Shard().AddressLost(at, a, had)
			d.events.raise(qp.Event{Type: ib.EventGIDChange, Port: 1})
		})
	}
	down := uint64(0)
	if len(have) > 0 && len(now) == 0 {
		down = 1
	}
	if down != d.board.Down.Swap(down) {
		event := ib.EventPortActive
		if down == 1 {
			event = ib.EventPortErr
		}
		d.events.raise(qp.Event{Type: event, Port: 1})
	}
}

// PortDown reports whether the host has lost all addresses of the adapter.
func (d *Device) PortDown() bool { return d.board.Down.Load() == 1 }

// hostHas returns the addresses in want that belong to an interface that is up.
// The host has all addresses of the loopback network.
func hostHas(want []netip.Addr) (has []netip.Addr) {
	var here []netip.Prefix
	ifs, err := net.Interfaces()
	if err != nil {
		return want // unknown: assume that it has all
	}
	for i := range ifs {
		if ifs[i].Flags&net.FlagUp == 0 || ifs[i].Flags&net.FlagRunning == 0 {
			continue
		}
		all, err := ifs[i].Addrs()
		if err != nil {
			continue // the interface was just removed
		}
		for _, a := range all {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				here = append(here, netip.PrefixFrom(p.Addr().Unmap().WithZone(""), p.Bits()))
			}
		}
	}
	for _, a := range want {
		for _, p := range here {
			if p.Addr() == a || a.IsLoopback() && p.Addr().IsLoopback() && p.Contains(a) {
				has = append(has, a)
				break
			}
		}
	}
	return has
}
