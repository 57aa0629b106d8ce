//go:build !portable

package broker

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
)

// TestStoppedHost stops the process that is the host (SIGSTOP). Data continues;
// processes that join, listen or ask for the members get an error in bounded time,
// which names the stopped process; and everything works once it continues.
func TestStoppedHost(t *testing.T) {
	a := freeAddress(t)
	host, out := helper(t, "TestHelperHost", a)
	says(t, out, "host is here")
	p, x := peerOf(t, a), enter(t, a)
	stop(t, host)
	p.packet(uint32(x.Slot)<<16|5, make([]byte, mad.Size), func([]byte) {})
	receive(t, x.port)
	began, pid := time.Now(), "process "+strconv.Itoa(host.Process.Pid)
	var waits sync.WaitGroup
	for what, ask := range map[string]func() error{
		"who comes":           func() error { _, _, err := Enter(on(a)); return err },
		"who wants to listen": func() error { return x.Claim(service + 1) },
		"who asks":            func() error { _, _, _, err := Who(a, rigSecret); return err },
	} {
		waits.Go(func() {
			err := ask()
			if err == nil || !strings.Contains(err.Error(), pid) || !errors.Is(err, unix.ETIMEDOUT) {
				t.Errorf("%s: %v, which does not name %s", what, err, pid)
			}
			t.Logf("%s: %v after %v", what, err, time.Since(began))
		})
	}
	waits.Wait()
	if took := time.Since(began); took > 3*joinTime {
		t.Errorf("that took %v", took)
	}
	must.Do(t, host.Process.Signal(unix.SIGCONT))
	y := enter(t, a)
	settle(t, "the next one listens", func() bool { return y.Claim(service+1) == nil })
	asked(t, p, y, service+1, 5)
}

// TestPortTaken checks the error of a process for an address whose port another
// program has.
func TestPortTaken(t *testing.T) {
	a := freeAddress(t)
	other, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 4791)))
	must.Do(t, err)
	if _, _, err := Enter(on(a)); !errors.Is(err, unix.EADDRINUSE) || !strings.Contains(err.Error(), "4791 on "+a.String()) {
		t.Errorf("the port is taken: %v", err)
	}
	must.Do(t, other.Close())
	if x := enter(t, a); x.Slot != 0 {
		t.Errorf("who comes then has slot %d", x.Slot)
	}
}

// TestLoneHostIsAttacked shows that messages of strangers cannot make a lone host
// share its address: it does not open the sockets of the other slots for them.
func TestLoneHostIsAttacked(t *testing.T) {
	a := freeAddress(t)
	x := enter(t, a)
	b := x.hosts()
	before := descriptors(t)
	good := newQueue(t, unix.SOCK_SEQPACKET)
	attack(t, b, map[string]lie{
		"no JSON":                      {"\x00\xff{", nil},
		"a member's message":           {`{"op":"claim","service":1}`, nil},
		"another address":              {`{"op":"join","version":2,"addrs":["127.0.0.1"]}`, []int{good}},
		"the first's slot":             {`{"op":"join","version":2,"back":true}`, []int{good}},
		"a slot that no process holds": {`{"op":"join","version":2,"back":true,"slot":1}`, []int{good}},
		"no descriptor":                {`{"op":"join","version":2}`, nil},
	})
	b.mu.Lock()
	alone := b.engine == nil
	b.mu.Unlock()
	if !alone {
		t.Error("the first has opened what others need")
	}
	settle(t, "what attackers brought is closed", func() bool { return descriptors(t) <= before+2 })
	if y := enter(t, a); y.Slot == 0 {
		t.Error("who comes has the first's slot")
	}
}

// TestD3_ThousandComeAndGo has a thousand processes join an address and leave, at most 24
// at a time, the current host as often as others. Each gets its own packets, also after
// the host has left; at the end nothing is left.
func TestD3_ThousandComeAndGo(t *testing.T) {
	const atATime = 24
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	a := freeAddress(t)
	p := peerOf(t, a)
	before := descriptors(t)
	var all []*process
	hosts, id := 0, uint32(0)
	for range 1000 {
		x := enter(t, a)
		if slices.ContainsFunc(all, func(y *process) bool { return y.Slot == x.Slot }) {
			t.Fatalf("two processes have slot %d", x.Slot)
		}
		must.Do(t, x.Claim(service+mad.ServiceID(x.Slot)))
		all = append(all, x)
		for len(all) >= atATime || len(all) > 1 && r.IntN(3) == 0 {
			i := r.IntN(len(all))
			if all[i].hosts() != nil {
				hosts++
			}
			all[i].die()
			all = slices.Delete(all, i, i+1)
		}
		y := all[r.IntN(len(all))]
		id++
		asked(t, p, y, service+mad.ServiceID(y.Slot), id)
	}
	t.Logf("%d of them were the host", hosts)
	if hosts < 10 {
		t.Errorf("only %d of them were the host", hosts)
	}
	for _, x := range all {
		x.die()
	}
	settle(t, "the descriptors are closed", func() bool { return descriptors(t) <= before+4 })
	if x := enter(t, a); x.Slot != 0 {
		t.Errorf("when all have gone, who comes has slot %d", x.Slot)
	}
}
