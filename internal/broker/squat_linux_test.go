//go:build !portable

package broker

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/must"
)

// Users other than that of the tests.
const (
	stranger = 4242
	mapped   = 4343 // user 65534 of a user namespace
)

// kindVar tells a helper what to do.
const kindVar = "BROKER_KIND"

// helperOf starts a helper as another user, in a process with these attributes. It skips the
// test unless it is root.
func helperOf(t *testing.T, name string, a netip.Addr, kind string, attr *syscall.SysProcAttr) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	if os.Getuid() != 0 {
		// Only root can be another user.
		t.Skip("not root")
	}
	cmd, out, err := helperWith(t, name, a, kind, attr)
	must.Do(t, err)
	return cmd, out
}

// helperWith starts a helper in a process with these attributes.
func helperWith(t *testing.T, name string, a netip.Addr, kind string, attr *syscall.SysProcAttr) (*exec.Cmd, *bufio.Scanner, error) {
	t.Helper()
	f, err := os.Open("/proc/self/exe") // the file may be where another user may not look
	must.Do(t, err)
	defer f.Close()
	cmd := exec.Command("/proc/self/fd/3", "-test.run", "^"+name+"$", "-test.timeout", "60s")
	cmd.ExtraFiles = []*os.File{f}
	cmd.Env = append(os.Environ(), addrVar+"="+a.String(), kindVar+"="+kind)
	cmd.SysProcAttr, cmd.Dir, cmd.Stderr = attr, "/", os.Stderr
	out, err := cmd.StdoutPipe()
	must.Do(t, err)
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, bufio.NewScanner(out), nil
}

// asOverflow returns the attributes of a process of a user whom its user namespace calls 65534.
func asOverflow(uid, gid int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 65534, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 65534, HostID: gid, Size: 1}},
		Credential:  &syscall.Credential{Uid: 65534, Gid: 65534, NoSetGroups: true},
	}
}

// TestOverflowUserIsAlone shows, without a second user, that a process with the overflow user ID
// of its user namespace enters an address alone, and that others know their own user.
func TestOverflowUserIsAlone(t *testing.T) {
	_, out, err := helperWith(t, "TestHelperAlone", freeAddress(t), "host", asOverflow(os.Getuid(), os.Getgid()))
	if errors.Is(err, os.ErrPermission) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EINVAL) {
		// Containers and hardened kernels forbid user namespaces.
		t.Skipf("no user namespace: %v", err)
	}
	must.Do(t, err)
	says(t, out, "enters false")
	self := uint32(os.Geteuid())
	if err := errors.Join(distinct(), ofThisUser(self)); err != nil {
		t.Errorf("this user: %v", err)
	}
	must.Fail(t, ofThisUser(self+1), unix.EPERM, "the next user")
}

// asStranger returns the attributes of a process of another user.
func asStranger() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: stranger}}
}

// brokerNames returns the names of brokers that any user can see.
func brokerNames() (names []string) {
	text, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		if at := strings.Index(line, "@softhca/broker/"); at >= 0 {
			names = append(names, strings.TrimSpace(line[at:]))
		}
	}
	return names
}

// unixSocket returns a socket of the broker's kind.
func unixSocket(t *testing.T) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	must.Do(t, err)
	return fd
}

// TestHelperBinder is a stranger who continually tries to bind every existing name of a
// broker, and keeps those that it gets.
func TestHelperBinder(t *testing.T) {
	a := told(t)
	names := append(brokerNames(), socketName(a).Name)
	fmt.Println("spins")
	for {
		for _, name := range names {
			fd := unixSocket(t)
			if unix.Bind(fd, &unix.SockaddrUnix{Name: name}) == nil && unix.Listen(fd, 1) == nil {
				fmt.Println("has", name)
				continue
			}
			_ = unix.Close(fd)
		}
	}
}

// TestNameIsKept kills one host after the other while a stranger spins on binding the
// names of the broker: the next host serves, and processes join it.
func TestNameIsKept(t *testing.T) {
	a := freeAddress(t)
	host, out := helper(t, "TestHelperHost", a)
	says(t, out, "host is here")
	p, x, y := peerOf(t, a), enter(t, a), enter(t, a)
	_, spins := helperOf(t, "TestHelperBinder", a, "", asStranger())
	says(t, spins, "spins")
	killed := time.Now()
	must.Do(t, host.Process.Kill())
	_ = host.Wait()
	settle(t, "a member is the host", func() bool { return x.hosts() != nil || y.hosts() != nil })
	t.Logf("the next host serves after %v", time.Since(killed))
	soon := runnable(t) * toldLimit / 3
	if took := time.Since(killed); took > soon {
		t.Errorf("the next host serves after %v", took)
	}
	if y.hosts() != nil {
		x, y = y, x
	}
	for i := range uint32(3) { // x is the host
		began := time.Now()
		z := enter(t, a)
		if z.Slot == 0 || z.GUID != x.GUID {
			t.Errorf("a process that enters has slot %d and GUID %x", z.Slot, z.GUID)
		}
		must.Do(t, z.Claim(service+7))
		asked(t, p, z, service+7, 1+i)
		x.die()
		z.Release(service + 7)
		if took := time.Since(began); took > soon {
			t.Errorf("joined and served after %v", took)
		}
		settle(t, "the next one is the host", func() bool { return y.hosts() != nil || z.hosts() != nil })
		if x, y = y, z; y.hosts() != nil {
			x, y = y, x
		}
	}
}

// TestHelperSquatter is a stranger who has the public name of an address. It listens there
// and accepts, or has a full queue, or does not listen.
func TestHelperSquatter(t *testing.T) {
	a := told(t)
	fd := unixSocket(t)
	must.Do(t, unix.Bind(fd, &unix.SockaddrUnix{Name: socketName(a).Name}))
	kind := os.Getenv(kindVar)
	if kind != "idle" {
		must.Do(t, unix.Listen(fd, 1))
	}
	for kind == "full" {
		own := unixSocket(t)
		if err := unix.Connect(own, &unix.SockaddrUnix{Name: socketName(a).Name}); err != nil {
			break
		}
	}
	must.Do(t, unix.SetNonblock(fd, false))
	fmt.Println("squats")
	for kind == "polite" { // it keeps the connections
		if _, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC); err != nil {
			t.Fatal(err)
		}
	}
	select {}
}

// squatters are the kinds of TestHelperSquatter.
var squatters = []string{"idle", "full", "polite"}

// TestSharedWithASquatter has a stranger take the public name of an address before the first
// process: processes share the address nevertheless, at once, also after the host has ended.
func TestSharedWithASquatter(t *testing.T) {
	for _, kind := range squatters {
		t.Run(kind, func(t *testing.T) {
			a := freeAddress(t)
			_, out := helperOf(t, "TestHelperSquatter", a, kind, asStranger())
			says(t, out, "squats")
			began := time.Now()
			x, y := enter(t, a), enter(t, a)
			if took := time.Since(began); took > runnable(t)*time.Second {
				t.Errorf("two processes enter in %v", took)
			}
			if x.Slot != 0 || y.Slot == 0 {
				t.Fatalf("slots %d and %d", x.Slot, y.Slot)
			}
			p := peerOf(t, a)
			must.Do(t, y.Claim(service))
			asked(t, p, y, service, 1)
			x.die()
			settle(t, "the next one is the host", func() bool { return y.hosts() != nil })
			asked(t, p, y, service, 2)
			if z := enter(t, a); z.Slot == 0 {
				t.Errorf("a process that enters has slot %d", z.Slot)
			}
		})
	}
}

// TestHelperAlone is a process that is user 65534 in the user namespace. It joins an address,
// and reports the outcome.
func TestHelperAlone(t *testing.T) {
	a := told(t)
	if uid := os.Geteuid(); uid != 65534 {
		t.Fatalf("this is user %d", uid)
	}
	if os.Getenv(kindVar) == "member" {
		fmt.Println("tries")
	}
	x := enter(t, a)
	fmt.Println("enters", x.Lease != nil)
	select {}
}

// TestOverflowUser has a process run as the overflow user ID of a user namespace: the kernel
// reports the same ID for each user that the namespace does not map. No stranger of the network
// namespace joins this process, and it joins no stranger.
func TestOverflowUser(t *testing.T) {
	a := freeAddress(t)
	_, out := helperOf(t, "TestHelperAlone", a, "host", asOverflow(mapped, mapped))
	says(t, out, "enters")
	_, out = helperOf(t, "TestHelperJoiner", a, "", asStranger())
	for out.Scan() {
		if strings.Contains(out.Text(), "welcome") {
			t.Errorf("a stranger is welcome: %s", out.Text())
		}
	}
	a = a.Next()
	hostile, out := helperOf(t, "TestHelperHostile", a, "", asStranger())
	says(t, out, "listens")
	_, in := helperOf(t, "TestHelperAlone", a, "member", asOverflow(mapped, mapped))
	says(t, in, "tries")
	says(t, in, "enters")
	must.Do(t, hostile.Process.Kill()) // it has reported what it received
	for out.Scan() {
		if strings.Contains(out.Text(), "received join") {
			t.Errorf("a process joins a stranger: %s", out.Text())
		}
	}
}

// TestHelperJoiner is a stranger who tries to join the broker of an address of any user.
func TestHelperJoiner(t *testing.T) {
	a := told(t)
	c, err := net.DialUnix("unixpacket", nil, socketName(a))
	if err != nil {
		return // there is no broker
	}
	w := newWire(c)
	must.Do(t, w.SetReadDeadline(time.Now().Add(waitLimit)))
	if err := w.send(&message{Op: opJoin, Version: version, Addrs: []netip.Addr{a}}, newQueue(t, unix.SOCK_SEQPACKET)); err != nil {
		return // it has closed the connection
	}
	if m, fds, err := w.receive(); err == nil && m.Op == opWelcome {
		fmt.Println("welcome with", len(fds), "descriptors")
	}
}

// TestStrangerIsClosed has a stranger connect to a listener, which accepts processes of this user
// only: the stranger gets nothing, and no descriptor is left.
func TestStrangerIsClosed(t *testing.T) {
	a := freeAddress(t)
	l, err := listenAt(socketName(a).Name)
	must.Do(t, err)
	t.Cleanup(func() { _ = l.Close() })
	_, out := helperOf(t, "TestHelperJoiner", a, "", asStranger())
	before := descriptors(t)
	if fd, err := l.accept(); fd >= 0 || err != nil {
		t.Errorf("a stranger has connection %d, %v", fd, err)
	}
	if now := descriptors(t); now > before {
		t.Errorf("%d descriptors are open, %d were before", now, before)
	}
	for out.Scan() {
		if strings.Contains(out.Text(), "welcome") {
			t.Errorf("a stranger is welcome: %s", out.Text())
		}
	}
	w, err := dialName(socketName(a).Name)
	must.Do(t, err)
	defer w.Close()
	fd, err := l.accept()
	if err != nil || fd < 0 {
		t.Fatalf("a process of this user has connection %d, %v", fd, err)
	}
	closeAll([]int{fd})
}

// TestHelperHostile is a stranger who listens at the name of a broker, and reports the messages
// that it receives, until it is killed.
func TestHelperHostile(t *testing.T) {
	a := told(t)
	l, err := net.ListenUnix("unixpacket", socketName(a))
	must.Do(t, err)
	fmt.Println("listens")
	for {
		c, err := l.AcceptUnix()
		must.Do(t, err)
		w := newWire(c)
		_ = w.SetReadDeadline(time.Now().Add(time.Second / 2))
		if m, _, err := w.receive(); err == nil {
			fmt.Println("received", m.Op)
		}
		_ = w.Close()
	}
}
