//go:build !portable

package broker

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/must"
)

// answering accepts connections at a listener until one takes the answer to its first message.
// Others are of members that have ended: they connect again as soon as a connection is closed.
func answering(t *testing.T, l *listener, m *message, give []int) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		for {
			fd, err := l.accept()
			if err != nil {
				t.Error(err)
				return
			}
			if answer(fd, m, give) == nil {
				return
			}
		}
	}()
	return done
}

// answer answers the first message of a connection, and closes it.
func answer(fd int, m *message, give []int) error {
	w, err := acceptedWire(fd)
	if err != nil {
		return err
	}
	defer w.Close()
	_, fds, err := w.receive()
	closeAll(fds)
	return errors.Join(err, w.send(m, give...))
}

// TestHostileHost has a process of this user answer joins in the name of a broker: a process
// that joins refuses every welcome that is not as it should be, soon, and closes what it got.
func TestHostileHost(t *testing.T) {
	a := freeAddress(t)
	good := boundSocket(t, unix.SOCK_DGRAM, true, netip.AddrPortFrom(a, 4791))
	other := boundSocket(t, unix.SOCK_DGRAM, true, netip.AddrPortFrom(a, 4792))
	queue, stream := newQueue(t, unix.SOCK_SEQPACKET), newQueue(t, unix.SOCK_STREAM)
	l, err := newConnTable()
	must.Do(t, err)
	t.Cleanup(func() { closeAll([]int{l.fd}) })
	named, err := listenAt(socketName(a).Name)
	must.Do(t, err)
	t.Cleanup(func() { _ = named.Close() })
	welcome := message{Op: opWelcome, Version: version, Slot: 1}
	with := func(change func(m *message)) *message {
		m := welcome
		change(&m)
		return &m
	}
	all := []int{good, queue, l.fd}
	before := descriptors(t)
	for _, c := range []struct {
		name string
		m    *message
		give []int
		want error
	}{
		{"a good welcome", &welcome, all, nil},
		{"another version", with(func(m *message) { m.Version++ }), all, unix.EPROTO},
		{"slot 0", with(func(m *message) { m.Slot = 0 }), all, unix.EPROTO},
		{"slot 255", with(func(m *message) { m.Slot = 255 }), all, unix.EPROTO},
		{"no descriptors", &welcome, nil, unix.EPROTO},
		{"a descriptor too few", &welcome, all[:2], unix.EPROTO},
		{"a descriptor too many", &welcome, append(all[:3:3], queue), unix.EPROTO},
		{"another port's socket", &welcome, []int{other, queue, l.fd}, unix.EINVAL},
		{"a stream as a store", &welcome, []int{good, stream, l.fd}, unix.EINVAL},
		{"no connTable", &welcome, []int{good, queue, queue}, unix.EINVAL},
		{"an answer to a claim", with(func(m *message) { m.Op = opClaimed }), all, unix.EPROTO},
		{"the store", with(func(m *message) { m.Op = opStore }), all, unix.EPROTO},
		{"a refusal", &message{Op: opRefused, Error: "no: file exists", Errno: unix.EEXIST}, all, unix.EEXIST},
		{"a broker that is away", &message{Op: opAway}, all, ErrNone},
	} {
		done := answering(t, named, c.m, c.give)
		began := time.Now()
		s, sockets, err := try(&Config{Addrs: []netip.Addr{a}})
		<-done
		if !errors.Is(err, c.want) || time.Since(began) > replyTime {
			t.Errorf("%s: %v after %v, want %v", c.name, err, time.Since(began), c.want)
		}
		if c.want == unix.EEXIST && strings.Count(err.Error(), "file exists") != 1 {
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil {
			s.Close()
			closeAll(append(sockets.Sockets, sockets.Forwarded))
		}
	}
	settle(t, "all descriptors are closed", func() bool { return descriptors(t) <= before })
}

// TestHostileMember joins as a member by hand, and sends what no member sends: the broker ends
// its connection at once, closes what it sent, and serves others.
func TestHostileMember(t *testing.T) {
	b := serve(t, 3)
	x := join(t, b)
	queue := newQueue(t, unix.SOCK_SEQPACKET)
	before := descriptors(t)
	for name, say := range map[string]string{
		"no JSON":             "{",
		"no operation":        "{}",
		"an unknown one":      `{"op":"nonsense"}`,
		"a second join":       `{"op":"join","version":2}`,
		"a broker's message":  `{"op":"claimed","seq":1}`,
		"a request for all":   `{"op":"succeed","version":2}`,
		"a service of a text": `{"op":"claim","service":"x"}`,
		"a negative service":  `{"op":"claim","service":-1}`,
		"a long message":      `{"op":"claim","service":1}` + strings.Repeat(" ", maxMessage),
	} {
		w := knock(t, b)
		must.Do(t, w.send(&message{Op: opJoin, Version: version, Addrs: b.cfg.Addrs}, queue))
		m, fds, err := w.receive()
		closeAll(fds)
		if err != nil || m.Op != opWelcome {
			t.Fatalf("%s: the broker refuses a member: %+v, %v", name, m, err)
		}
		began := time.Now()
		if _, _, err := w.WriteMsgUnix([]byte(say), unix.UnixRights(queue, queue), nil); err != nil {
			t.Fatal(err)
		}
		for err == nil { // a refusal may come first
			_, _, err = w.receive()
		}
		if took := time.Since(began); took > replyTime {
			t.Errorf("%s: the connection ends after %v", name, took)
		}
		_ = w.Close()
		settle(t, name+": the slot is free", func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.members[m.Slot] == nil && len(b.absent) == 0
		})
	}
	settle(t, "all descriptors are closed", func() bool { return descriptors(t) <= before })
	if err := x.Claim(service); err != nil {
		t.Errorf("a member that behaves: %v", err)
	}
}

// TestFailedJoin shows that failed joins leave no descriptor open.
func TestFailedJoin(t *testing.T) {
	b := serve(t, 1)
	join(t, b)
	before := descriptors(t)
	for range 20 {
		if _, _, err := Join(b.cfg); !errors.Is(err, unix.EAGAIN) {
			t.Fatalf("a broker without a free slot: %v", err)
		}
	}
	settle(t, "all descriptors are closed", func() bool { return descriptors(t) <= before })
}
