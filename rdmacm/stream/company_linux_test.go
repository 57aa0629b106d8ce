//go:build !portable

package stream

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

// retransmitted returns the number of packets that a host has retransmitted.
func retransmitted(t testing.TB, h *host) uint64 {
	t.Helper()
	all, err := h.m.Devices()[0].Counters()
	must.Do(t, err)
	for _, c := range all {
		if c.Name == "retrans_pkts" {
			return c.Value
		}
	}
	t.Fatal("no such counter")
	return 0
}

// TestD3_CompanyComes opens and closes a second adapter on an address while the first one
// transfers data. The first loses no data and stays connected, few packets are
// retransmitted, and both can connect to each other.
func TestD3_CompanyComes(t *testing.T) {
	shared := loopback()
	a, far := newHost(t, verbs.Config{Addr: shared}), newHost(t, verbs.Config{Addr: loopback()})
	c1, c2, l := newConns(t, a, far)
	e1, e2, fromFar := newConns(t, far, a)
	flow(t, c1, c2, func() {
		flow(t, e1, e2, func() {
			quiet := retransmitted(t, a) + retransmitted(t, far)
			began := time.Now()
			b := newHost(t, verbs.Config{Addr: shared})
			t.Logf("the second is there after %v; %d packets were sent again before, %d meanwhile", time.Since(began), quiet,
				retransmitted(t, a)+retransmitted(t, far)-quiet)
			if n := retransmitted(t, a) + retransmitted(t, far) - quiet; n > 512 {
				t.Errorf("%d packets were sent again", n)
			}
			if x, y := guidOf(t, a), guidOf(t, b); x != y {
				t.Errorf("the node GUIDs of one address are %v and %v", x, y)
			}
			d1, d2, near := newConns(t, b, a)
			f1, f2, back := newConns(t, a, b)
			flow(t, d1, d2, func() { flow(t, f1, f2, func() {}) })
			closeBoth(t, d1, d2)
			closeBoth(t, f1, f2)
			must.Do(t, near.Close())
			must.Do(t, back.Close())
			must.Do(t, b.m.Close())
		})
	})
	closeBoth(t, c1, c2)
	closeBoth(t, e1, e2)
	must.Do(t, l.Close())
	must.Do(t, fromFar.Close())
}

// another is another process of a test.
type another struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// other starts another process, which runs a test with the given environment and is
// killed at the end.
func other(t *testing.T, name string, env ...string) *another {
	t.Helper()
	self, err := os.Executable()
	must.Do(t, err)
	cmd := exec.Command(self, "-test.run", "^"+name+"$", "-test.timeout", "120s")
	cmd.Env = append(os.Environ(), env...)
	in, err := cmd.StdinPipe()
	must.Do(t, err)
	out, err := cmd.StdoutPipe()
	must.Do(t, err)
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &another{cmd, in, bufio.NewScanner(out)}
}

// says waits until the process says something.
func (p *another) says(t *testing.T, what string) {
	t.Helper()
	var all strings.Builder
	for p.out.Scan() {
		if strings.Contains(p.out.Text(), what) {
			return
		}
		fmt.Fprintln(&all, p.out.Text())
	}
	t.Fatalf("process %d never says %q:\n%s", p.cmd.Process.Pid, what, &all)
}

// tell makes the process do its next step.
func (p *another) tell(t *testing.T) {
	t.Helper()
	_, err := p.in.Write([]byte("\n"))
	must.Do(t, err)
}

// roleVar is the environment variable by which TestD3_KilledHost selects the role of the
// other process.
const roleVar = "COMPANY_ADDR"

// TestHelperListener is the other process: it accepts one connection, reports that, and
// waits to be killed.
func TestHelperListener(t *testing.T) {
	addr := os.Getenv(roleVar)
	if addr == "" {
		// It is the other process of a test.
		t.Skip("no address")
	}
	h := newHost(t, verbs.Config{Addr: addr})
	l, err := ListenOn(t.Context(), h.m, addr+":7")
	must.Do(t, err)
	fmt.Println("listens")
	_, err = l.Accept(t.Context())
	must.Do(t, err)
	fmt.Println("accepted")
	select {}
}

// toldLimit is the time within which the peer of a killed program must get an error: a
// second, and more for a busy machine. Without a broker the peer would get none.
const toldLimit = 10 * time.Second

// TestD3_KilledHost kills the first program on an address, which has connected while it
// was alone. The other programs on the address disconnect its peer within a second. Their
// own connections stay.
func TestD3_KilledHost(t *testing.T) {
	shared := loopback()
	far := newHost(t, verbs.Config{Addr: loopback()})
	first := other(t, "TestHelperListener", roleVar+"="+shared)
	first.says(t, "listens")
	c, err := DialOn(soon(t), far.m, shared+":7")
	must.Do(t, err)
	first.says(t, "accepted")

	b, d := newHost(t, verbs.Config{Addr: shared}), newHost(t, verbs.Config{Addr: shared})
	id := b.id()
	must.Fail(t, id.BindAddr(netip.MustParseAddrPort(shared+":7")), ib.EADDRINUSE, "the port of the one who was alone")
	must.Do(t, id.Destroy())
	c1, c2, l := newConns(t, b, d)
	flow(t, c1, c2, func() {
		killed := time.Now()
		must.Do(t, first.cmd.Process.Kill())
		b := make([]byte, 1)
		_, err := c.Read(b)
		if !errors.Is(err, ib.ECONNRESET) || time.Since(killed) > toldLimit {
			t.Errorf("the peer of the killed program reads %v after %v", err, time.Since(killed))
		}
		t.Logf("%v after %v", err, time.Since(killed))
	})
	_ = c.Close() // the connection is already broken
	x1, x2, again := newConns(t, far, b)
	closeBoth(t, x1, x2)
	closeBoth(t, c1, c2)
	must.Do(t, l.Close())
	must.Do(t, again.Close())
}
