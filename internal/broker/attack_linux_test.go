//go:build !portable

package broker

import (
	"bytes"
	"encoding/json"
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
	"github.com/softhca/softhca/mad"
)

// knock connects to a broker.
func knock(t *testing.T, b *Broker) *wire {
	t.Helper()
	c, err := net.DialUnix("unixpacket", nil, socketName(b.cfg.Addrs[0]))
	must.Do(t, err)
	w := newWire(c)
	t.Cleanup(func() { _ = w.Close() })
	must.Do(t, w.SetReadDeadline(time.Now().Add(waitLimit)))
	return w
}

// descriptors returns how many this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	must.Do(t, err)
	return len(all)
}

// lie is an illegal message to a broker, and the descriptors with it.
type lie struct {
	say  string
	give []int
}

// attack has each lie refused.
func attack(t *testing.T, b *Broker, lies map[string]lie) {
	t.Helper()
	for name, c := range lies {
		w := knock(t, b)
		_, _, err := w.WriteMsgUnix([]byte(c.say), unix.UnixRights(c.give...), nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		m, fds, err := w.receive()
		if err == nil && (m.Op != opRefused || m.Error == "" || len(fds) != 0) {
			t.Errorf("%s: the broker says %+v and gives %d descriptors", name, m, len(fds))
		}
		if err == nil {
			_, _, err = w.receive()
		}
		if err == nil {
			t.Errorf("%s: the broker goes on", name)
		}
		_ = w.Close()
	}
}

// newQueue returns a Unix socket of a kind.
func newQueue(t *testing.T, kind int) int {
	t.Helper()
	ends, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	must.Do(t, err)
	t.Cleanup(func() { closeAll(ends[:]) })
	return ends[0]
}

// TestD3_Attacks sends garbage and wrong descriptors to a broker, from a process
// that has not joined and from a member. Each message is refused; no descriptor
// stays open; and honest members are not affected.
func TestD3_Attacks(t *testing.T) {
	b := serve(t, 3)
	p, x := newPeer(t, b), join(t, b)
	must.Do(t, x.Claim(service))
	pipe, err := os.Open("/dev/null")
	must.Do(t, err)
	defer pipe.Close()
	null := int(pipe.Fd())
	good, stream := newQueue(t, unix.SOCK_SEQPACKET), newQueue(t, unix.SOCK_STREAM)
	text := func(m message) string {
		b, err := json.Marshal(m)
		must.Do(t, err)
		return string(b)
	}
	joining := message{Op: opJoin, Version: version, Addrs: b.cfg.Addrs}
	with := func(change func(*message)) string {
		m := joining
		change(&m)
		return text(m)
	}
	before := descriptors(t)
	attack(t, b, map[string]lie{
		"no JSON":                      {"\x00\xff{", nil},
		"other JSON":                   {`["join"]`, nil},
		"a huge number":                {`{"op":"join","slot":4711}`, []int{good}},
		"no address":                   {`{"op":"join","version":2,"addrs":["nowhere"]}`, []int{good}},
		"no operation":                 {`{}`, []int{good}},
		"a member's message":           {text(message{Op: opClaim, Service: service}), nil},
		"a broker's message":           {text(message{Op: opWelcome, Version: version, Slot: 1}), []int{good}},
		"another version":              {with(func(m *message) { m.Version++ }), []int{good}},
		"a long name":                  {with(func(m *message) { m.Program = strings.Repeat("x", maxProgram+1) }), []int{good}},
		"a long message":               {strings.Repeat(" ", maxMessage) + text(joining), []int{good}},
		"no descriptor":                {text(joining), nil},
		"too many descriptors":         {text(joining), []int{good, good, good}},
		"a file":                       {text(joining), []int{null}},
		"a stream":                     {text(joining), []int{stream}},
		"a member's slot":              {with(func(m *message) { m.Slot, m.Back = x.Slot, true }), []int{good}},
		"no such slot":                 {with(func(m *message) { m.Slot, m.Back = 4, true }), []int{good}},
		"a slot that no process holds": {with(func(m *message) { m.Slot, m.Back = 3, true }), []int{good}},
		"a slot and a store":           {with(func(m *message) { m.Slot, m.Back = 2, true }), []int{good, good}},
		"the store of others":          {text(message{Op: opSucceed, Version: version, Addrs: b.cfg.Addrs}), nil},
	})
	settle(t, "what attackers brought is closed", func() bool { return descriptors(t) <= before })

	y := join(t, b) // a member that goes mad
	y.mu.Lock()
	w := y.wire
	y.mu.Unlock()
	must.Do(t, w.send(&message{Op: "nonsense"}, null, good))
	p.send(mad.AttrREQ, reqFor(service, 3))
	if q := expect(t, x.port, mad.AttrREQ, &mad.REQ{}); q.LocalCommID != 3 {
		t.Errorf("REQ %d comes", q.LocalCommID)
	}
	if err := x.Claim(service + 1); err != nil {
		t.Errorf("a member that behaves: %v", err)
	}
}

// TestStrangers opens ten thousand connections, and some that never send
// anything. The broker keeps a bounded number of them and closes them; a
// process that joins meanwhile gets a slot.
func TestStrangers(t *testing.T) {
	b := serve(t, 2)
	before := descriptors(t)
	for range 10_000 {
		c, err := net.DialUnix("unixpacket", nil, socketName(b.cfg.Addrs[0]))
		if err != nil {
			continue // the queue of the socket is full
		}
		_ = c.Close()
	}
	join(t, b)
	var silent []*wire
	settle(t, "strangers wait", func() bool {
		for len(silent) < 2*maxStrangers {
			c, err := net.DialUnix("unixpacket", nil, socketName(b.cfg.Addrs[0]))
			if err != nil { // the queue of the socket is full
				break
			}
			silent = append(silent, newWire(c))
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.strangers > maxStrangers {
			t.Fatalf("%d strangers wait", b.strangers)
		}
		return b.strangers == maxStrangers
	})
	join(t, b) // perhaps not before the first of them are gone
	for _, w := range silent {
		_ = w.Close()
	}
	settle(t, "the descriptors are closed", func() bool { return descriptors(t) < before+64 })
}

// TestDeafMember shows that a member that never reads its queue does not keep others
// waiting.
func TestDeafMember(t *testing.T) {
	b := serve(t, 2)
	p, deaf, x := newPeer(t, b), join(t, b), join(t, b)
	settle(t, "the deaf member's queue is full", func() bool {
		for range 100 {
			p.send(mad.AttrMRA, &mad.MRA{RemoteCommID: uint32(deaf.Slot) << 24})
		}
		b.membersMu.Lock()
		defer b.membersMu.Unlock()
		return b.unmailed > 0
	})
	p.send(mad.AttrMRA, &mad.MRA{LocalCommID: 5, RemoteCommID: uint32(x.Slot) << 24})
	if m := expect(t, x.port, mad.AttrMRA, &mad.MRA{}); m.LocalCommID != 5 {
		t.Errorf("MRA %d comes", m.LocalCommID)
	}
}

// TestAnotherUser has a process of another user ask for a place, or for the
// address, which a broker serves, a process has alone, or several share: it gets
// neither.
func TestAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		// Only root can be another user.
		t.Skip("not root")
	}
	b := serve(t, 2)
	alone := freeAddress(t)
	enter(t, alone)
	foreign(t, b.cfg.Addrs[0])
	foreign(t, alone)
	enter(t, alone)
	foreign(t, alone)
	if all := b.Members(); len(all) != 0 {
		t.Errorf("%+v are on", all)
	}
	if _, _, all, err := Who(alone, rigSecret); err != nil || len(all) != 2 {
		t.Errorf("%+v are on (%v)", all, err)
	}
}

// foreign has another user's process try all that it can to get an address.
func foreign(t *testing.T, a netip.Addr) {
	t.Helper()
	self, err := os.Executable()
	must.Do(t, err)
	cmd := exec.Command("/proc/self/fd/3", "-test.run", "TestHelperOfAnotherUser", "-test.v")
	f, err := os.Open(self) // the file may be in a directory without read permission
	must.Do(t, err)
	defer f.Close()
	cmd.ExtraFiles = []*os.File{f}
	cmd.Env = append(os.Environ(), "BROKER_ADDR="+a.String())
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS")) {
		t.Errorf("%v\n%s", err, out)
	}
}
