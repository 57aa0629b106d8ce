//go:build !portable

package rdmacm

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
	"github.com/softhca/softhca/verbs"
)

var visitors = flag.Int("visitors", 20, "processes of TestD3_VisitorsComeAndGo, one after the other")

// The environment of TestHelperVisitor: the address, and the port that it listens on.
const (
	visitorAddr = "VISITOR_ADDR"
	visitorPort = "VISITOR_PORT"
)

// The ports of those who stay, and of the first visitor.
const (
	residentPort     = 1000
	firstVisitorPort = 2000
)

// TestHelperVisitor is one of many processes that come to an address: it returns to
// everybody who connects what he sends, connects once where it is told to, and leaves when
// it is told to.
func TestHelperVisitor(t *testing.T) {
	addr := os.Getenv(visitorAddr)
	if addr == "" {
		// It is the other process of a test.
		t.Skip("no address")
	}
	h := newHost(t, verbs.Config{Addr: addr})
	returning(t, h, os.Getenv(visitorPort))
	told := bufio.NewScanner(os.Stdin)
	fmt.Println("listens")
	told.Scan()
	must(t, echoed(t, h, addr+":"+told.Text(), nil, byte(os.Getpid())).Close())
	fmt.Println("has exchanged")
	told.Scan()
}

// returning has a host return to everybody who connects to a port what he sends.
func returning(t *testing.T, h *host, port string) {
	t.Helper()
	l, err := h.m.Listen(t.Context(), h.addr.String()+":"+port)
	must(t, err)
	t.Cleanup(func() { _ = l.Close() }) // its Manager may have been closed
	go func() {
		for {
			c, err := l.Accept(t.Context())
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c) // who sends sees what became of it
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

// exchange has a visitor connect to a port.
func (v *visitor) exchange(t *testing.T, port string) {
	t.Helper()
	_, err := io.WriteString(v.in, port+"\n")
	must(t, err)
	v.says(t, "has exchanged")
}

// leave has a visitor end, as programs do or at once, and waits for that.
func (v *visitor) leave(t *testing.T, killed bool) {
	t.Helper()
	if killed {
		must(t, v.cmd.Process.Kill())
		_ = v.cmd.Wait() // which says that it was killed
		return
	}
	v.tell(t)
	v.says(t, "PASS")
	must(t, v.cmd.Wait())
}

// TestD3_VisitorsComeAndGo has many processes come to an address and go, 16 of them at a
// time, half of them killed. Each exchanges something with one who is there. Two stay, and
// are connected to each other and to one elsewhere; they exchange something again and
// again. At the end there is nobody but them, and when they go nothing is left.
func TestD3_VisitorsComeAndGo(t *testing.T) {
	const atATime, ahead = 16, 3
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	addr, before, began := loopback(), openFiles(t), time.Now()
	first := visit(t, addr, 0) // those who stay are not the first
	first.says(t, "listens")
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
		v.says(t, "listens")
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
	must(t, near.Close())
	must(t, away.Close())
	for _, h := range []*host{b, a, far} {
		must(t, h.m.Close())
	}
	nothingLeft(t, a.addr, before)
}

// nobodyElse wants none but the two who stay to be on the address, and every port to be
// free.
func nobodyElse(t *testing.T, h *host, visitors int) {
	t.Helper()
	var all []broker.Member
	within(t, "only those who stay are there", func() bool {
		var err error
		_, _, all, err = broker.Who(h.addr)
		return err == nil && len(all) == 2
	})
	for _, m := range all {
		if m.PID != os.Getpid() || m.Services > 1 {
			t.Errorf("%+v is there", m)
		}
	}
	for n := range visitors {
		id := h.id(TCP)
		must(t, id.BindAddr(netip.AddrPortFrom(h.addr, uint16(firstVisitorPort+n))))
		if err := id.Listen(1); err != nil {
			t.Errorf("port %d of one who has gone: %v", firstVisitorPort+n, err)
		}
		must(t, id.Destroy())
	}
}

// nothingLeft wants an address to be nobody's, and the files to be closed that were not
// open before.
func nothingLeft(t *testing.T, a netip.Addr, before int) {
	t.Helper()
	within(t, "the address is free", func() bool { return udp.Vacant(a) == nil })
	v4 := a.As4()
	for name, what := range map[string]string{
		"/proc/net/udp":  fmt.Sprintf("%08X:12B7 ", binary.NativeEndian.Uint32(v4[:])),
		"/proc/net/unix": "@softhca/broker/" + a.String() + "\n",
	} {
		sockets, err := os.ReadFile(name)
		must(t, err)
		if strings.Contains(string(sockets), what) {
			t.Errorf("%s has a socket of %v", name, a)
		}
	}
	within(t, "the files are closed", func() bool { return openFiles(t) <= before })
}

// openFiles returns how many descriptors of this process are open, but pipes to others.
func openFiles(t *testing.T) (n int) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	for _, f := range all {
		to, err := os.Readlink("/proc/self/fd/" + f.Name())
		if errors.Is(err, syscall.ENOENT) {
			continue // that which the folder was read by
		}
		must(t, err)
		if strings.HasPrefix(to, "socket:") || strings.HasPrefix(to, "/memfd:") {
			n++
		}
	}
	return n
}

// within waits for what must come to hold soon.
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
