//go:build !portable

package broker

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/must"
)

// boundSocket returns a UDP or TCP socket, and binds it if an address is given.
func boundSocket(t *testing.T, kind int, reuse bool, at netip.AddrPort) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0)
	must.Do(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	if reuse {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	}
	if at.IsValid() {
		err = errors.Join(err, unix.Bind(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}))
	}
	must.Do(t, err)
	return fd
}

// memory returns shared memory that is no connection table.
func memory(t *testing.T, size int64, seals int) *connTable {
	t.Helper()
	fd, err := unix.MemfdCreate("softhca-broker", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	must.Do(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	err = unix.Ftruncate(fd, size)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	must.Do(t, err)
	return &connTable{fd}
}

// falseStores returns changes of the store of a broker with one slot, each of which makes
// the store unusable.
func falseStores(t *testing.T, a netip.Addr) map[string]func(m *message, c *stored) {
	other := netip.MustParseAddr("127.99.1.1")
	mute := unixSocket(t)
	t.Cleanup(func() { _ = unix.Close(mute) })
	muteName := namePrefix + t.Name()
	must.Do(t, unix.Bind(mute, &unix.SockaddrUnix{Name: muteName}))
	named, err := listenAt("@other/" + t.Name())
	must.Do(t, err)
	t.Cleanup(func() { _ = named.Close() })
	idle := newQueue(t, unix.SOCK_SEQPACKET)
	first := func(fd func(b *stored) int) func(*message, *stored) {
		return func(_ *message, c *stored) { c.groups = [][]int{{fd(c), c.groups[0][1], c.groups[0][2]}} }
	}
	is := func(fd int) func(*message, *stored) { return first(func(*stored) int { return fd }) }
	return map[string]func(m *message, c *stored){
		"an unbound UDP socket":         is(boundSocket(t, unix.SOCK_DGRAM, true, netip.AddrPort{})),
		"another address's socket":      is(boundSocket(t, unix.SOCK_DGRAM, true, netip.AddrPortFrom(other, 4791))),
		"a Unix socket":                 is(idle),
		"a TCP socket":                  is(boundSocket(t, unix.SOCK_STREAM, true, netip.AddrPortFrom(a, 4791))),
		"another port's socket":         is(boundSocket(t, unix.SOCK_DGRAM, true, netip.AddrPortFrom(a, 4792))),
		"a socket that does not listen": func(m *message, c *stored) { m.Names[0], c.listeners[0] = muteName, mute },
		"no socket":                     is(0),
		"the connTable as a socket":     first(func(c *stored) int { return c.connTable.fd }),
		"a socket too few":              func(_ *message, c *stored) { c.groups = [][]int{c.groups[0][1:]} },
		"a socket too many":             func(_ *message, c *stored) { c.groups = [][]int{append(slices.Clone(c.groups[0]), c.groups[0][0])} },
		"no sockets":                    func(_ *message, c *stored) { c.groups = nil },
		"more slots than sockets":       func(m *message, _ *stored) { m.Slots++ },
		"no slots":                      func(m *message, c *stored) { m.Slots, c.groups = 0, [][]int{c.groups[0][1:]} },
		"negative slots":                func(m *message, c *stored) { m.Slots, c.groups = -1, [][]int{c.groups[0][2:]} },
		"another version":               func(m *message, _ *stored) { m.Version++ },
		"another address":               func(m *message, _ *stored) { m.Addrs = []netip.Addr{other} },
		"no address":                    func(m *message, c *stored) { m.Addrs, m.Names, c.groups, c.listeners = nil, nil, nil, nil },
		"an address too many":           func(m *message, _ *stored) { m.Addrs = append(slices.Clone(m.Addrs), m.Addrs[0]) },
		"no listener":                   func(m *message, c *stored) { m.Names, c.listeners = nil, nil },
		"a listener too many": func(m *message, c *stored) {
			m.Names, c.listeners = append(m.Names, m.Names[0]), append(c.listeners, c.listeners[0])
		},
		"a listener without a name":     func(_ *message, c *stored) { c.listeners[0] = idle },
		"a listener with another name":  func(m *message, c *stored) { m.Names[0], m.Names[1] = m.Names[1], m.Names[0] },
		"a listener of another program": func(m *message, c *stored) { m.Names[0], c.listeners[0] = "@other/"+t.Name(), named.fd },
		"a connTable of another size":   func(_ *message, c *stored) { c.connTable = memory(t, connTableSize-1, connTableSeals) },
		"a connTable that can shrink":   func(_ *message, c *stored) { c.connTable = memory(t, connTableSize, unix.F_SEAL_GROW|unix.F_SEAL_SEAL) },
		"a socket as a connTable":       func(_ *message, c *stored) { c.connTable = &connTable{idle} },
	}
}

// contents returns a label and a store like those of a broker.
func contents(b *Broker) (*message, stored) {
	m := *b.label()
	m.Names = slices.Clone(m.Names)
	var c stored
	for _, l := range b.listeners {
		c.listeners = append(c.listeners, l.fd)
	}
	c.groups, c.connTable = slices.Clone(b.groups), b.connTable
	return &m, c
}

// close closes the descriptors.
func (c *stored) close() {
	closeAll(slices.Concat(c.groups...))
	closeAll(c.listeners)
	if c.connTable != nil {
		_ = unix.Close(c.connTable.fd)
	}
}

// TestFalseStore changes each item of a store: openStore refuses each change, and closes what
// it received.
func TestFalseStore(t *testing.T) {
	b := serve(t, 1)
	wrong := falseStores(t, b.cfg.Addrs[0])
	before := descriptors(t)
	try := func(change func(m *message, c *stored)) error {
		m, c := contents(b)
		change(m, &c)
		store, err := newStore(m, c)
		must.Do(t, err)
		defer closeAll([]int{store})
		_, got, err := openStore(store, b.cfg.Addrs)
		got.close()
		return err
	}
	if err := try(func(*message, *stored) {}); err != nil {
		t.Fatalf("a store as it should be: %v", err)
	}
	for name, change := range wrong {
		if try(change) == nil {
			t.Errorf("%s: the store is accepted", name)
		}
	}
	null := boundSocket(t, unix.SOCK_DGRAM, false, netip.AddrPort{})
	if _, _, err := openStore(null, b.cfg.Addrs); err == nil {
		t.Error("a UDP socket is a store")
	}
	if _, _, err := openStore(newQueue(t, unix.SOCK_SEQPACKET), b.cfg.Addrs); err == nil {
		t.Error("an empty socket is a store")
	}
	settle(t, "all descriptors of refused stores are closed", func() bool { return descriptors(t) <= before+10 })
}

// TestFalseDeputy starts a broker on an address whose port is taken, where a process of this
// user gives false stores: the broker takes over none, and closes them.
func TestFalseDeputy(t *testing.T) {
	b := serve(t, 1)
	a := freeAddress(t)
	boundSocket(t, unix.SOCK_DGRAM, false, netip.AddrPortFrom(a, 4791))
	l, err := listenAt(socketName(a).Name)
	must.Do(t, err)
	t.Cleanup(func() { _ = l.Close() })
	lock := newQueue(t, unix.SOCK_SEQPACKET)
	before := descriptors(t)
	for name, answer := range map[string]func(w *wire){
		"a store of another address": func(w *wire) {
			m, c := contents(b)
			store, err := newStore(m, c)
			if err != nil {
				t.Error(err)
			}
			_ = w.send(&message{Op: opStore, Version: version}, store, lock)
			closeAll([]int{store})
		},
		"a file as a store": func(w *wire) { _ = w.send(&message{Op: opStore, Version: version}, 0, lock) },
		"one descriptor":    func(w *wire) { _ = w.send(&message{Op: opStore, Version: version}, lock) },
		"a welcome":         func(w *wire) { _ = w.send(&message{Op: opWelcome, Version: version}, lock, lock) },
		"no JSON":           func(w *wire) { _, _ = w.Write([]byte("{")) },
	} {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for {
				fd, err := l.accept()
				if err != nil {
					return
				}
				w, err := acceptedWire(fd)
				if err != nil {
					return
				}
				_, _, err = w.receive()
				if err == nil {
					answer(w)
				}
				_ = w.Close()
				if err != nil { // the test has closed its connection
					return
				}
			}
		}()
		began := time.Now()
		if got, err := Open(Config{Addrs: []netip.Addr{a}, Slots: 1, Log: t.Logf}); err == nil {
			t.Errorf("%s: the broker takes it over", name)
			_ = got.Close()
		}
		if took := time.Since(began); took > recoverTime+time.Second {
			t.Errorf("%s: refused after %v", name, took)
		}
		w, err := dialName(socketName(a).Name) // ends the false deputy
		must.Do(t, err)
		_ = w.Close()
		<-ended
	}
	settle(t, "all descriptors of false deputies are closed", func() bool { return descriptors(t) <= before+2 })
	must.Fail(t, udp.Vacant(a), unix.EADDRINUSE, "the port that is taken")
}
