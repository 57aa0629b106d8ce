//go:build !portable

package meeting

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric/near/ring"
	"github.com/softhca/softhca/internal/must"
)

// role is the environment variable that makes the test binary play another process. Its value is
// the kind of process, and the process ID of the test, which socket names contain.
const role = "SOFTHCA_TEST_MEETING"

func TestMain(m *testing.M) {
	if what := os.Getenv(role); what != "" {
		if err := other(what); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// other is the main function of another process.
func other(what string) error {
	kind, pid, _ := strings.Cut(what, " ")
	nameOfTest := func(a netip.Addr) string { return "test-" + pid + "-" + a.String() }
	switch kind {
	case "undumpable":
		return undumpable(nameOfTest)
	case "overflow":
		return wants(Allowed(), ErrNotAllowed)
	case "stranger", "pushy":
		if err := syscall.Setuid(12345); err != nil {
			return err
		}
	}
	switch kind {
	case "stranger":
		c, err := dial(nameOf(nameOfTest(identity(1).Addr), 1))
		if c != nil {
			c.close()
		}
		return wants(err, ErrUser)
	case "pushy": // does not check the user of the other side
		return push(nameOf(nameOfTest(identity(1).Addr), 1))
	}
	met := make(chan *Peer, 1)
	h, err := Listen(Config{Self: identity(2), Name: nameOfTest, Ring: 1 << 16, Met: func(p *Peer) { met <- p }})
	if err != nil {
		return err
	}
	if err := h.Invite(context.Background(), identity(1).Key()); err != nil {
		return err
	}
	<-met
	select {} // until it is killed
}

// undumpable is a process that stops being dumpable after it has begun to listen.
func undumpable(name func(netip.Addr) string) error {
	c := Config{Self: identity(7), Name: name, Ring: 1 << 16, Met: func(*Peer) {}}
	h, err := Listen(c)
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	c.Self = identity(8)
	_, err = Listen(c)
	return errors.Join(wants(err, ErrNotAllowed), wants(h.Invite(context.Background(), identity(1).Key()), ErrNotAllowed),
		wants(h.makeOffer(&message{kind: invitation, from: identity(7)}), ErrNotAllowed), h.Close())
}

// wants returns an error unless err is want.
func wants(err, want error) error {
	if errors.Is(err, want) {
		return nil
	}
	return fmt.Errorf("%v, want %w", err, want)
}

// push sends an invitation to a process of another user, which must end the connection unanswered.
func push(to string) error {
	fd, err := newSocket()
	if err != nil {
		return err
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: to}); err != nil {
		return err
	}
	c, err := newConn(fd)
	if err != nil {
		return err
	}
	defer c.close()
	_ = c.send(&message{kind: invitation, number: 1, from: identity(2), to: identity(1)}, -1) // the connection may be closed already
	_, _, err = c.receive()
	if errors.Is(err, unix.ECONNRESET) {
		err = io.EOF
	}
	return wants(err, io.EOF)
}

// start starts another process.
func start(t *testing.T, what string, attr *syscall.SysProcAttr) (cmd *exec.Cmd, output *bytes.Buffer) {
	t.Helper()
	cmd, output = exec.Command("/proc/self/exe"), new(bytes.Buffer)
	cmd.Env = append(os.Environ(), role+"="+what+" "+strconv.Itoa(os.Getpid()))
	cmd.SysProcAttr = attr
	cmd.Stdout, cmd.Stderr = output, output
	must.Do(t, cmd.Start())
	return cmd, output
}

// Processes that the kernel protects from their user take no part.
func TestNotAllowed(t *testing.T) {
	must.Do(t, Allowed())
	cmd, output := start(t, "undumpable", nil)
	if err := cmd.Wait(); err != nil {
		t.Errorf("a process that is not dumpable: %v, %s", err, output)
	}
	const overflow = 65534
	one := func(inside, outside int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: inside, HostID: outside, Size: 1}}
	}
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: one(overflow, os.Geteuid()), GidMappings: one(overflow, os.Getegid())}
	probe := exec.Command("/bin/true")
	probe.SysProcAttr = attr
	if err := probe.Run(); err != nil {
		t.Skipf("no user namespaces: %v", err) // some systems do not allow them
	}
	cmd, output = start(t, "overflow", attr)
	if err := cmd.Wait(); err != nil {
		t.Errorf("a process with the overflow ID: %v, %s", err, output)
	}
}

// Neither side meets a process of another user, and the host counts the refusals.
func TestAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start processes of other users") // the test needs one
	}
	a := listen(t, identity(1))
	for _, what := range []string{"stranger", "pushy"} {
		cmd, output := start(t, what, nil) // the attribute Credential would make this process not dumpable
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v, %s", what, err, output)
		}
	}
	if n := a.Refused.Load(); n != 2 {
		t.Errorf("%d connections refused, want 2", n)
	}
	if a.Met.Load() != 0 || len(a.places) != 0 {
		t.Error("a process of another user was served")
	}
}

// The end of a peer is noticed, however it ends.
func TestPeerIsKilled(t *testing.T) {
	for range 3 {
		a := listen(t, identity(1))
		cmd, output := start(t, "peer", nil)
		p := a.peer(t, identity(2))
		must.Do(t, p.Woken())
		must.Do(t, cmd.Process.Kill())
		gone(t, p)
		_ = cmd.Wait() // it was killed
		if output.Len() > 0 {
			t.Error(output)
		}
		must.Do(t, a.Close())
	}
}

// ask sends bytes with descriptors to a node and returns the answer.
func ask(t *testing.T, n *node, b []byte, fds ...int) (message, error) {
	t.Helper()
	c, err := dial(nameOf(name(n.self.Addr), n.self.Slot))
	must.Do(t, err)
	defer c.close()
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	var failed error
	must.Do(t, c.raw.Control(func(s uintptr) { failed = unix.Sendmsg(int(s), b, oob, nil, unix.MSG_NOSIGNAL) }))
	must.Do(t, failed)
	m, fd, err := c.receive()
	closeAll([]int{fd})
	return m, err
}

// Messages that no correct process sends are refused and counted, and leave no descriptor.
func TestFalseMessages(t *testing.T) {
	a, b := listen(t, identity(1)), listen(t, identity(2))
	own, err := ring.Create(1 << 16)
	must.Do(t, err)
	defer own.Close()
	with := func(change func(m *message)) []byte {
		m := message{kind: offer, number: 1, from: identity(2), to: identity(1)}
		change(&m)
		return m.encode()
	}
	good := with(func(*message) {})
	a.mu.Lock()
	_, err = a.begin(identity(4).Key(), 5)
	a.mu.Unlock()
	must.Do(t, err)
	b.mu.Lock()
	_, err = b.begin(a.self.Key(), 1) // b waits for an offer with the number 1
	b.mu.Unlock()
	must.Do(t, err)
	before := descriptors(t)
	for i, c := range []struct {
		why string
		b   []byte
		fds []int
	}{
		{"garbage", []byte("garbage"), nil},
		{"longer than a message", append(bytes.Clone(good), 0), []int{own.FD()}},
		{"much longer than a message", make([]byte, 100000), nil},
		{"another version", change(good, 5, version+1), []int{own.FD()}},
		{"no descriptor", good, nil},
		{"two descriptors", good, []int{own.FD(), own.FD()}},
		{"many descriptors", good, []int{own.FD(), own.FD(), own.FD(), own.FD(), own.FD(), own.FD()}},
		{"an invitation with a descriptor", with(func(m *message) { m.kind = invitation }), []int{own.FD()}},
		{"an offer without an invitation", good, []int{own.FD()}},
		{"an offer with a wrong number", with(func(m *message) { m.from = identity(4) }), []int{own.FD()}},
		{"an offer to another generation", with(func(m *message) { m.from, m.number, m.to.Generation = identity(4), 5, 1 }), []int{own.FD()}},
		{"a welcome without an offer", with(func(m *message) { m.kind = welcome }), []int{own.FD()}},
		{"a refusal", with(func(m *message) { m.kind = refusal }), nil},
		{"an offer for another slot", with(func(m *message) { m.to = identity(5) }), []int{own.FD()}},
		{"an invitation for another slot", with(func(m *message) { m.kind, m.to = invitation, identity(5) }), nil},
		{"an invitation for another address", with(func(m *message) { m.kind, m.to.Addr = invitation, netip.MustParseAddr("10.0.0.2") }), nil},
		{"from itself", with(func(m *message) { m.kind, m.from = invitation, identity(1) }), nil},
		{"an invitation with a number that its sender has not drawn", with(func(m *message) { m.kind, m.number = invitation, 2 }), nil},
		{"an invitation from nobody", with(func(m *message) { m.kind, m.from = invitation, identity(6) }), nil},
	} {
		if m, err := ask(t, a, c.b, c.fds...); err != nil || m.kind != refusal {
			t.Errorf("%s: answer %+v, %v", c.why, m, err)
		}
		if n := a.Refused.Load(); n != uint64(i+1) {
			t.Errorf("%s: %d refused, want %d", c.why, n, i+1)
		}
	}
	settle(t, func() bool { return descriptors(t) == before })
	if a.Met.Load()+b.Met.Load() != 0 {
		t.Error("a false message led to a meeting")
	}
}

// An offer of memory without seals leads to no meeting.
func TestFalseMemory(t *testing.T) {
	a := listen(t, identity(1))
	plain, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	must.Do(t, err)
	defer unix.Close(plain)
	a.mu.Lock()
	at, err := a.begin(identity(4).Key(), 5)
	a.mu.Unlock()
	must.Do(t, err)
	m := message{kind: offer, number: 5, from: identity(4), to: identity(1)}
	if answer, err := ask(t, a, m.encode(), plain); err != nil || answer.kind != welcome {
		t.Errorf("answer %+v, %v", answer, err)
	}
	settle(t, func() bool { return a.Refused.Load() == 1 })
	if a.Met.Load() != 0 || at.met {
		t.Error("a process without memory was met")
	}
	if mappings(t) != 0 {
		t.Error("the memory for a process that was refused is still mapped")
	}
}

// settle waits until a condition holds.
func settle(t *testing.T, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(waitLimit); !holds(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("the condition does not come to hold")
		}
	}
}

// At most maxStrangers connections are served; there is room again after they have ended.
func TestStrangersAreBounded(t *testing.T) {
	a, b := listen(t, identity(1)), listen(t, identity(2))
	var silent []*conn
	for range maxStrangers {
		c, err := dial(nameOf(name(a.self.Addr), a.self.Slot))
		must.Do(t, err)
		silent = append(silent, c)
	}
	settle(t, func() bool { return len(a.places) == maxStrangers })
	c, err := dial(nameOf(name(a.self.Addr), a.self.Slot))
	must.Do(t, err)
	if _, _, err := c.receive(); !errors.Is(err, io.EOF) {
		t.Errorf("a connection more than are served: %v", err)
	}
	c.close()
	if n := a.Refused.Load(); n != 1 {
		t.Errorf("%d connections refused, want 1", n)
	}
	for _, c := range silent {
		c.close()
	}
	settle(t, func() bool { return len(a.places) == 0 })
	must.Do(t, b.Invite(t.Context(), a.self.Key()))
}

// Attempts are bounded; there is room again after one has ended.
func TestAttemptsAreBounded(t *testing.T) {
	a, b := listen(t, identity(1)), listen(t, identity(2))
	var last *attempt
	for i := range maxAttempts {
		a.mu.Lock()
		var err error
		last, err = a.begin(identity(100+i).Key(), 1)
		a.mu.Unlock()
		must.Do(t, err)
	}
	must.Fail(t, a.Invite(t.Context(), b.self.Key()), unix.EBUSY, "one attempt more")
	must.Fail(t, b.Invite(t.Context(), a.self.Key()), ErrRefused, "an invitation more")
	a.mu.Lock()
	a.end(identity(100+maxAttempts-1).Key(), last)
	a.mu.Unlock()
	must.Do(t, a.Invite(t.Context(), b.self.Key()))
}

// FuzzHost sends any bytes to a host, and then meets it.
func FuzzHost(f *testing.F) {
	for _, k := range []kind{invitation, offer, welcome, refusal} {
		f.Add((&message{kind: k, number: 1, from: identity(2), to: identity(1)}).encode(), uint8(k))
	}
	f.Fuzz(func(t *testing.T, b []byte, n uint8) {
		if len(b) == 0 || len(b) > 1<<12 {
			return
		}
		a := listen(t, identity(1))
		own, err := ring.Create(1 << 16)
		must.Do(t, err)
		defer own.Close()
		fds := []int{own.FD(), 0, 1}
		if m, err := ask(t, a, b, fds[:n%4]...); err == nil && m.kind != refusal {
			t.Errorf("answer %+v", m)
		}
		c := listen(t, identity(3))
		must.Do(t, a.Invite(t.Context(), c.self.Key()))
	})
}
