//go:build !portable

package broker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/identity"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
)

// addrVar is how a test tells a helper, which is another process, the address.
const addrVar = "BROKER_ADDR"

// told returns the address that a helper was started with; in a normal test run
// there is none, and the helper does nothing.
func told(t *testing.T) netip.Addr {
	t.Helper()
	a, err := netip.ParseAddr(os.Getenv(addrVar))
	if err != nil {
		// It is the other process of a test.
		t.Skip("no address")
	}
	return a
}

// TestHelperOfAnotherUser is another user's process.
func TestHelperOfAnotherUser(t *testing.T) {
	a := told(t)
	if _, _, err := Join(on(a)); !errors.Is(err, ErrNone) || !errors.Is(err, unix.EPERM) {
		t.Errorf("join: %v", err)
	}
	mine := on(a)
	mine.Secret = &identity.Secret{1}
	if s, _, err := Enter(mine); s != nil || !errors.Is(err, unix.EADDRINUSE) || !strings.Contains(err.Error(), "user 0 has") {
		t.Errorf("enter: %v, %v", s, err)
	}
	c, err := net.DialUnix("unixpacket", nil, socketName(a))
	must.Do(t, err)
	defer c.Close()
	w := newWire(c)
	must.Do(t, w.SetReadDeadline(time.Now().Add(waitLimit)))
	if err := w.send(&message{Op: opWho}); err == nil {
		if m, _, err := w.receive(); err == nil && m.Op != opRefused {
			t.Errorf("who: %+v", m)
		}
	}
	for what, open := range map[string]func() error{
		"a socket of its own": func() error { _, err := udp.Open(udp.Config{Addrs: []netip.Addr{a}}); return err },
		"a group":             func() error { _, err := udp.OpenFirst(a); return err },
		"a broker":            func() error { _, err := Open(Config{Addrs: []netip.Addr{a}, Slots: 1}); return err },
	} {
		if err := open(); !errors.Is(err, unix.EADDRINUSE) {
			t.Errorf("%s: %v", what, err)
		}
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must.Do(t, err)
	defer unix.Close(fd)
	must.Do(t, errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1), unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)))
	must.Fail(t, unix.Bind(fd, &unix.SockaddrInet4{Port: 4791, Addr: a.As4()}), unix.EADDRINUSE, "a socket of the port")
}

// helper starts another process that runs a helper, and returns its output.
func helper(t *testing.T, name string, a netip.Addr) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^"+name+"$", "-test.timeout", "60s")
	cmd.Env = append(os.Environ(), addrVar+"="+a.String())
	out, err := cmd.StdoutPipe()
	must.Do(t, err)
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, bufio.NewScanner(out)
}

// stop stops a helper, all of its threads.
func stop(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	must.Do(t, cmd.Process.Signal(unix.SIGSTOP))
	var is unix.WaitStatus
	if _, err := unix.Wait4(cmd.Process.Pid, &is, unix.WUNTRACED, nil); err != nil || !is.Stopped() {
		t.Fatalf("the other process is not stopped: %v, %v", is, err)
	}
}

// says waits for a line of a helper.
func says(t *testing.T, out *bufio.Scanner, what string) {
	t.Helper()
	for out.Scan() {
		if strings.Contains(out.Text(), what) {
			return
		}
	}
	t.Fatalf("the other process never says %q", what)
}

// TestHelperBroker is a broker in a process of its own.
func TestHelperBroker(t *testing.T) {
	b, err := Open(Config{Addrs: []netip.Addr{told(t)}, Slots: 8, GUID: rigGUID, Log: t.Logf, Secret: rigSecret})
	must.Do(t, err)
	fmt.Println("broker serves")
	must.Do(t, b.Serve(context.Background()))
}

// TestHelperHost is a process that is the first on an address.
func TestHelperHost(t *testing.T) {
	a := told(t)
	if os.Getenv(kindVar) == "few" {
		limit := unix.Rlimit{Cur: fewDescriptors, Max: fewDescriptors}
		must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	}
	x := enter(t, a)
	must.Do(t, x.Claim(service))
	fmt.Println("host is here")
	select {}
}

// TestHelperMember is a member in a process of its own, with a connection.
func TestHelperMember(t *testing.T) {
	a := told(t)
	lease, sockets, err := Join(on(a))
	must.Do(t, err)
	port, err := udp.Open(udp.Config{Addrs: []netip.Addr{a}, Lease: sockets})
	must.Do(t, err)
	must.Do(t, lease.Claim(service))
	// A child that inherits all that a fork leaves in it, and lives on.
	lease.mu.Lock()
	conn, err := lease.wire.File()
	lease.mu.Unlock()
	must.Do(t, err)
	child := exec.Command("sleep", "5")
	child.ExtraFiles = []*os.File{conn}
	must.Do(t, child.Start())
	fmt.Println("member listens")
	expect(t, port, mad.AttrREQ, &mad.REQ{})
	fmt.Println("member was asked")
	select {}
}

// TestKilled kills processes: a member with a surviving child, whose peer is disconnected within a
// second and whose service is free; and repeatedly the broker, while a member's packets arrive.
// None of these is lost, and each broker finds what the last one left.
func TestKilled(t *testing.T) {
	b := serve(t, 1) // finds an address
	a := b.cfg.Addrs[0]
	p := newPeer(t, b)
	must.Do(t, b.Close())
	broker, out := helper(t, "TestHelperBroker", a)
	says(t, out, "broker serves")
	x := join(t, b)
	member, said := helper(t, "TestHelperMember", a)
	says(t, said, "member listens")
	p.send(mad.AttrREQ, reqFor(service, 0x99))
	says(t, said, "member was asked")
	killed := time.Now()
	must.Do(t, member.Process.Kill())
	if r := expect(t, p.port, mad.AttrREJ, &mad.REJ{}); r.RemoteCommID != 0x99 || time.Since(killed) > toldLimit {
		t.Errorf("%+v after %v", r, time.Since(killed))
	}
	settle(t, "the service of who was killed is free", func() bool { return x.Claim(service) == nil })

	payload := make([]byte, mad.Size)
	for range 3 {
		must.Do(t, broker.Process.Kill())
		p.send(mad.AttrREQ, reqFor(service, 0x55)) // some of it may come to the broker that dies
		_ = broker.Wait()
		for range 200 {
			p.packet(uint32(x.Slot)<<16|7, payload, func([]byte) {})
			if m, _ := receive(t, x.port); m.Header().AttrID == mad.AttrREQ {
				receive(t, x.port)
			}
		}
		broker, out = helper(t, "TestHelperBroker", a)
		says(t, out, "broker serves")
		if err := x.Claim(service + 5); err != nil {
			t.Fatalf("the next broker: %v", err)
		}
	}
}

// TestManyComeAndGo has a thousand members come and go, 64 of them at a time at
// most. In the end all slots are free.
func TestManyComeAndGo(t *testing.T) {
	const slots = 64
	b := serve(t, slots)
	before := descriptors(t)
	var all []*process
	for i := range 1000 {
		if len(all) == slots {
			all[0].die()
			all = all[1:]
			settle(t, "a slot is free", func() bool {
				b.mu.Lock()
				defer b.mu.Unlock()
				return len(b.free) > 0
			})
		}
		x := join(t, b)
		must.Do(t, x.Claim(service+mad.ServiceID(i)))
		all = append(all, x)
	}
	for _, x := range all {
		x.die()
	}
	settle(t, "all slots are free", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.free) == slots
	})
	must.Do(t, b.engine.do(func(clock.Instant) {
		if r := b.engine.router; len(r.services)+len(r.remote)+len(r.local) != 0 {
			t.Errorf("%d services and %d connections are left", len(r.services), len(r.remote))
		}
	}))
	if n := descriptors(t); n > before+4 {
		t.Errorf("%d descriptors are open, %d were", n, before)
	}
}

// TestNextBrokerKnows shows what the next broker does for members that do not
// rejoin. If a member died while there was no broker, its peer gets a DREQ, although the
// connection is older than the broker. A member that has been stopped keeps its slot and
// its connections until it is killed.
func TestNextBrokerKnows(t *testing.T) {
	b := serve(t, 3)
	a, p, x := b.cfg.Addrs[0], newPeer(t, b), join(t, b)
	stopped, said := helper(t, "TestHelperMember", a)
	says(t, said, "member listens")
	p.send(mad.AttrREQ, reqFor(service, 1))
	says(t, said, "member was asked")
	stop(t, stopped)
	dies := join(t, b)
	must.Do(t, dies.Claim(service+1))
	id := uint32(dies.Slot)<<24 | 7
	p.send(mad.AttrREQ, reqFor(service+1, 2))
	p.send(mad.AttrRTU, &mad.RTU{LocalCommID: 2, RemoteCommID: id})
	p.send(mad.AttrREQ, reqFor(service+1, 3))
	p.send(mad.AttrREJ, &mad.REJ{LocalCommID: 3, RemoteCommID: id + 1})
	for range 4 {
		receive(t, dies.port)
	}
	must.Do(t, b.Close())
	dies.die()
	next, err := Open(b.cfg)
	must.Do(t, err)
	begin(t, next)
	if d := expect(t, p.port, mad.AttrDREQ, &mad.DREQ{}); d.RemoteCommID != 2 || d.LocalCommID != id || d.RemoteQPN != 0x123 {
		t.Errorf("of the one that died: %+v", d)
	}
	p.send(mad.AttrDREP, &mad.DREP{LocalCommID: 2, RemoteCommID: id})
	if y := join(t, next); y.Slot != dies.Slot {
		t.Errorf("slot %d is given, not %d of the one that died; %d is stopped, %d is here", y.Slot, dies.Slot, 6-x.Slot-dies.Slot, x.Slot)
	}
	if _, _, err := Join(on(a)); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("who wants the slot of the one that is stopped gets %v", err)
	}
	killed := time.Now()
	must.Do(t, stopped.Process.Kill())
	if r := expect(t, p.port, mad.AttrREJ, &mad.REJ{}); r.RemoteCommID != 1 || time.Since(killed) > toldLimit {
		t.Errorf("%+v after %v", r, time.Since(killed))
	}
	join(t, next)
}
