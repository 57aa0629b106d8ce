//go:build !portable

package broker

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric/fdmark"
	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/must"
)

// TestAloneWithASquatter has a stranger take the public name of an address before the first
// process, which has no secret: it opens the address alone, at once, and the log names the
// stranger. So does the error of the second process.
func TestAloneWithASquatter(t *testing.T) {
	for _, kind := range squatters {
		t.Run(kind, func(t *testing.T) {
			a := freeAddress(t)
			_, out := helperOf(t, "TestHelperSquatter", a, kind, asStranger())
			says(t, out, "squats")
			var log []string
			c := on(a)
			c.Secret, c.Log = nil, func(format string, args ...any) { log = append(log, fmt.Sprintf(format, args...)) }
			began := time.Now()
			lease, sockets, err := Enter(c)
			if took := time.Since(began); took > runnable(t)*time.Second/2 {
				t.Errorf("the first process enters after %v", took)
			}
			if lease != nil || sockets != nil || err != nil {
				t.Fatalf("the first process enters with %v, %v", lease, err)
			}
			if all := strings.Join(log, "\n"); !strings.Contains(all, "user 4242 has") || !strings.Contains(all, "one process at a time") {
				t.Errorf("the log says %q", log)
			}
			port, err := udp.Open(udp.Config{Addrs: c.Addrs})
			must.Do(t, err)
			defer port.Close()
			_, _, err = Enter(c)
			if !errors.Is(err, unix.EADDRINUSE) || !strings.Contains(err.Error(), "user 4242 has") || strings.Contains(err.Error(), "rdma_rxe") {
				t.Errorf("the second process: %v", err)
			}
			must.Fail(t, Look(c.Addrs, true, nil), unix.EADDRINUSE, "whether the address can be shared")
		})
	}
}

// TestSquattedBroker has a stranger take the public name before a separate broker begins:
// without a secret the broker fails, and names the stranger; with one it serves.
func TestSquattedBroker(t *testing.T) {
	a := freeAddress(t)
	_, out := helperOf(t, "TestHelperSquatter", a, "idle", asStranger())
	says(t, out, "squats")
	c := on(a)
	var log []string
	c.Slots, c.Secret, c.Log = 2, nil, func(format string, args ...any) { log = append(log, fmt.Sprintf(format, args...)) }
	if b, err := Open(c); err == nil || !strings.Contains(err.Error(), "user 4242") {
		t.Fatalf("a broker without a name: %v, %v", b, err)
	}
	if err := udp.Vacant(a); err != nil {
		t.Errorf("the address after a broker that failed: %v", err)
	}
	c.Secret = rigSecret
	b, err := Open(c)
	must.Do(t, err)
	if all := strings.Join(log, "\n"); !strings.HasPrefix(all, "user 4242 has") || !strings.Contains(all, "use another socket for "+a.String()) {
		t.Errorf("the log says %q", all)
	}
	begin(t, b)
	join(t, b)
}

// TestDeputyIsWatched ends a separate broker while a stranger spins on binding its names: the
// next broker gets the store from a member, again and again, from whichever lives.
func TestDeputyIsWatched(t *testing.T) {
	b := serve(t, 4)
	c := b.cfg
	x, y := join(t, b), join(t, b)
	_, spins := helperOf(t, "TestHelperBinder", c.Addrs[0], "", asStranger())
	says(t, spins, "spins")
	for i := range 3 {
		must.Do(t, b.Close())
		if i == 1 { // the deputy may be the one that ends
			x.die()
			x = y
		}
		began := time.Now()
		next, err := Open(c)
		must.Do(t, err)
		if took := time.Since(began); took > runnable(t)*time.Second || !next.Recovered() {
			t.Errorf("broker %d begins after %v, recovered: %v", i, took, next.Recovered())
		}
		begin(t, next)
		if err := x.Claim(service); err != nil {
			t.Errorf("broker %d: %v", i, err)
		}
		b = next
	}
}

// TestAway asks for a broker that has ended, and whose members live: the answers say so, within
// the time that Enter waits, and the address is this user's. A broker with other addresses gets
// no store.
func TestAway(t *testing.T) {
	b := serve(t, 2)
	a := b.cfg.Addrs[0]
	x := join(t, b)
	must.Do(t, b.Close())
	began := time.Now()
	_, _, err := Enter(on(a))
	if took := time.Since(began); !errors.Is(err, unix.EAGAIN) || !strings.Contains(err.Error(), "softhca broker") || took > runnable(t)*enterTime {
		t.Errorf("a process enters after %v: %v", took, err)
	}
	if _, _, _, err := Who(a, rigSecret); !errors.Is(err, ErrNone) {
		t.Errorf("who is on: %v", err)
	}
	if err := Look(b.cfg.Addrs, true, rigSecret); err != nil {
		t.Errorf("whether the address can be shared: %v", err)
	}
	more := b.cfg
	more.Addrs = append(more.Addrs[:1:1], a.Next().Next())
	if _, err := Open(more); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("a broker of other addresses: %v", err)
	}
	w := knock(t, b)
	must.Do(t, w.send(&message{Op: opSucceed, Version: version + 1, Addrs: b.cfg.Addrs}))
	if m, fds, err := w.receive(); err != nil || m.Op != opRefused || len(fds) != 0 {
		t.Errorf("a broker of another version: %+v with %d descriptors, %v", m, len(fds), err)
	}
	next, err := Open(b.cfg)
	must.Do(t, err)
	begin(t, next)
	must.Do(t, x.Claim(service))
}

// TestForkedChildClosesNames shows how a forked child recognises the listening sockets of its
// parent: each is marked, and its name has the prefix that is_shared of capi/libibverbs checks.
func TestForkedChildClosesNames(t *testing.T) {
	b := serve(t, 1)
	if len(b.listeners) != maxNames {
		t.Errorf("%d names", len(b.listeners))
	}
	for i, l := range b.listeners {
		if err := isListener(l.fd, b.names[i]); err != nil || !fdmark.Marked(l.fd) || !strings.HasPrefix(b.names[i], "@softhca/") {
			t.Errorf("%s: marked %v, %v", b.names[i], fdmark.Marked(l.fd), err)
		}
	}
}
