//go:build !portable

package stream

import (
	"bufio"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/broker"
	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

var visitors = flag.Int("visitors", 20, "processes of TestD3_VisitorsComeAndGo, one after the other")

// The environment of TestHelperVisitor: the address, and the port that it listens on.
const (
	visitorAddr = "VISITOR_ADDR"
	visitorPort = "VISITOR_PORT"
)

// The ports of the processes that stay, and of the first visitor.
const (
	residentPort     = 1000
	firstVisitorPort = 2000
)

// TestHelperVisitor is one of many processes on an address. It echoes the data of every
// connection; on command it connects once to a port, and ends.
func TestHelperVisitor(t *testing.T) {
	addr := os.Getenv(visitorAddr)
	if addr == "" {
		// It is the other process of a test.
		t.Skip("no address")
	}
	h := newHost(t, verbs.Config{Addr: addr})
	returning(t, h, os.Getenv(visitorPort))
	told := bufio.NewScanner(os.Stdin)
	fmt.Println("visitor is here")
	told.Scan()
	must.Do(t, echoed(t, h, addr+":"+told.Text(), nil, byte(os.Getpid())).Close())
	fmt.Println("has exchanged")
	told.Scan()
}

// returning makes a host echo the data of every connection to a port.
func returning(t *testing.T, h *host, port string) {
	t.Helper()
	l, err := ListenOn(t.Context(), h.m, h.addr.String()+":"+port)
	must.Do(t, err)
	t.Cleanup(func() { _ = l.Close() }) // fails if its Manager was closed
	go func() {
		for {
			c, err := l.Accept(t.Context())
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c) // the sender notices failures
				_ = c.Close()
			}()
		}
	}()
}

// visitor is another process on the address.
type visitor struct {
	*another
	port string
}

// visit starts a visitor.
func visit(t *testing.T, addr string, n int) *visitor {
	t.Helper()
	port := strconv.Itoa(firstVisitorPort + n)
	return &visitor{other(t, "TestHelperVisitor", visitorAddr+"="+addr, visitorPort+"="+port), port}
}

// exchange makes a visitor connect to a port and exchange data.
func (v *visitor) exchange(t *testing.T, port string) {
	t.Helper()
	_, err := io.WriteString(v.in, port+"\n")
	must.Do(t, err)
	v.says(t, "has exchanged")
}

// leave makes a visitor end, normally or by SIGKILL, and waits for that.
func (v *visitor) leave(t *testing.T, killed bool) {
	t.Helper()
	if killed {
		must.Do(t, v.cmd.Process.Kill())
		_ = v.cmd.Wait() // reports that it was killed
		return
	}
	v.tell(t)
	v.says(t, "PASS")
	must.Do(t, v.cmd.Wait())
}

// TestD3_VisitorsComeAndGo starts and ends many processes on an address, 16 at a time; half
// of them are killed. Each exchanges data with a process on the address. Two programs stay:
// they are connected with each other and with one on another address, and exchange data
// repeatedly. At the end they are alone, and after they have ended nothing is left.
func TestD3_VisitorsComeAndGo(t *testing.T) {
	const atATime, ahead = 16, 3
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	addr, before, began := loopback(), openFiles(t), time.Now()
	first := visit(t, addr, 0) // the programs that stay are not the first
	first.says(t, "visitor is here")
	a, b, far := newHost(t, verbs.Config{Addr: addr}), newHost(t, verbs.Config{Addr: addr}), newHost(t, verbs.Config{Addr: loopback()})
	home := addr + ":" + strconv.Itoa(residentPort)
	returning(t, a, strconv.Itoa(residentPort))
	near, away := echoed(t, b, home, nil, 1), echoed(t, far, home, nil, 2)

	first.exchange(t, strconv.Itoa(residentPort))
	all, coming, killed := []*visitor{first}, []*visitor(nil), 0
	for n := 1; n < *visitors || len(coming) > 0; {
		for ; n < *visitors && len(coming) <= ahead; n++ {
			coming = append(coming, visit(t, addr, n))
		}
		v := coming[0]
		coming = coming[1:]
		v.says(t, "visitor is here")
		if i := r.IntN(len(all) + 1); i < len(all) {
			v.exchange(t, all[i].port)
		} else {
			v.exchange(t, strconv.Itoa(residentPort))
		}
		all = append(all, v)
		for len(all) > atATime || len(all) > 1 && r.IntN(3) == 0 {
			i, kill := r.IntN(len(all)), r.IntN(2) == 0
			all[i].leave(t, kill)
			all = slices.Delete(all, i, i+1)
			if kill {
				killed++
			}
		}
		echoed(t, b, "", near, byte(n))
		echoed(t, far, "", away, byte(n+1))
	}
	for _, v := range all {
		v.leave(t, false)
	}
	t.Logf("%d processes have come and gone in %v, %d of them were killed", *visitors, time.Since(began), killed)
	echoed(t, b, "", near, 3)
	echoed(t, far, "", away, 4)
	nobodyElse(t, a, *visitors)
	must.Do(t, near.Close())
	must.Do(t, away.Close())
	for _, h := range []*host{b, a, far} {
		must.Do(t, h.m.Close())
	}
	nothingLeft(t, a.addr, before)
}

// nobodyElse checks that only the two programs that stay are on the address, and that every
// visitor's port is free.
func nobodyElse(t *testing.T, h *host, visitors int) {
	t.Helper()
	var all []broker.Member
	within(t, "only the programs that stay are there", func() bool {
		var err error
		_, _, all, err = broker.Who(h.addr, nil)
		return err == nil && len(all) == 2
	})
	for _, m := range all {
		if m.PID != os.Getpid() || m.Services > 1 {
			t.Errorf("%+v is there", m)
		}
	}
	for n := range visitors {
		id := h.id()
		must.Do(t, id.BindAddr(netip.AddrPortFrom(h.addr, uint16(firstVisitorPort+n))))
		if err := id.Listen(1); err != nil {
			t.Errorf("port %d of a visitor that has ended: %v", firstVisitorPort+n, err)
		}
		must.Do(t, id.Destroy())
	}
}

// nothingLeft checks that an address is free, and that the process has no more files open
// than before.
func nothingLeft(t *testing.T, a netip.Addr, before int) {
	t.Helper()
	within(t, "the address is free", func() bool { return udp.Vacant(a) == nil })
	v4 := a.As4()
	for name, what := range map[string]string{
		"/proc/net/udp":  fmt.Sprintf("%08X:12B7 ", binary.NativeEndian.Uint32(v4[:])),
		"/proc/net/unix": "@softhca/broker/" + a.String() + "\n",
	} {
		within(t, name+" has no socket of "+a.String(), func() bool { // the kernel frees sockets that were sent a moment later
			sockets, err := os.ReadFile(name)
			must.Do(t, err)
			return !strings.Contains(string(sockets), what)
		})
	}
	within(t, "the files are closed", func() bool { return openFiles(t) <= before })
}

// openFiles returns the number of sockets and memory files that this process has open.
func openFiles(t *testing.T) (n int) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	must.Do(t, err)
	for _, f := range all {
		to, err := os.Readlink("/proc/self/fd/" + f.Name())
		if errors.Is(err, syscall.ENOENT) {
			continue // the descriptor by which the directory was read
		}
		must.Do(t, err)
		if strings.HasPrefix(to, "socket:") || strings.HasPrefix(to, "/memfd:") {
			n++
		}
	}
	return n
}

// within waits for a condition that must soon hold.
func within(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(waitLimit); !holds(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}
