package lab

import (
	"context"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/softhca/softhca/interop/frames"
	"github.com/softhca/softhca/interop/matrix"
	"github.com/softhca/softhca/interop/netns"
)

func TestParseCounters(t *testing.T) {
	c, err := parseCounters("rcvd_pkts 801\nsent_pkts 12\n")
	if err != nil || c["rcvd_pkts"] != 801 || c["sent_pkts"] != 12 {
		t.Errorf("%v, %v", c, err)
	}
	if _, err := parseCounters("rcvd_pkts\n"); err == nil {
		t.Error("a counter without a value is taken")
	}
}

func TestAgreed(t *testing.T) {
	x := &Traffic{Counts: frames.Counts{Out: 3, In: 4, BadIn: 1}, Peer: Counters{"rcvd_pkts": 3, "sent_pkts": 5}}
	if !x.Agreed() {
		t.Error("the same packets on both sides do not agree")
	}
	x.Peer["rcvd_pkts"] = 2
	if x.Agreed() {
		t.Error("a packet is missing, and they agree")
	}
	// A group of the guest's own: it counts what it sends, or some of it.
	for n, want := range map[int64]int64{3: 3, 5: 3, 7: 3, 8: 4} {
		x.InGroup, x.Peer["rcvd_pkts"] = 4, n
		if got := x.Taken(); got != want {
			t.Errorf("with %d counted, %d of ours are taken, not %d", n, got, want)
		}
	}
}

func TestListens(t *testing.T) {
	const table = `  sl  local_address rem_address   st
   0: 00000000:4853 00000000:0000 0A 00000000
   1: 0100007F:1F90 0100007F:9999 01 00000000
`
	if !listens(table, 18515) || listens(table, 8080) || listens(table, 0x53) {
		t.Error("the kernel's table is read wrong")
	}
}

func TestAddressesOfACell(t *testing.T) {
	l := &Lab{}
	for _, c := range matrix.All([]matrix.Dim{matrix.IP()}, nil) {
		own, peer, gid := l.Own(c), l.Peer(c), l.GIDIndex(c)
		if six := c.Is("ip", "ipv6"); own.Is6() != six || peer.Is6() != six || (gid == 2) != six {
			t.Errorf("%v: %v, %v, GID %d", c, own, peer, gid)
		}
	}
	if l.Own(matrix.Cell{}) != netns.Host4 {
		t.Error("a matrix without IP versions is not IPv4's")
	}
}

// A program that runs here ends as it ends, hears signals, and does not
// outlive its context.
func TestLocalProcesses(t *testing.T) {
	l := &Lab{Dir: t.TempDir(), softhca: "/bin/echo"}
	p, err := l.Ours(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if r, err := p.Wait(); err != nil || !r.OK() || !strings.HasPrefix(r.Stdout, "a --capture "+l.Dir) {
		t.Errorf("%+v, %v", r, err)
	}
	if p, err = l.start(t.Context(), exec.Command("/bin/sh", "-c", `trap 'exit 4' INT; echo ready; while :; do sleep 0.01; done`)); err != nil {
		t.Fatal(err)
	}
	if err := p.Await(t.Context(), regexp.MustCompile("ready")); err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if r, err := p.Wait(); err != nil || r.Exit != 4 {
		t.Errorf("%+v, %v", r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if p, err = l.start(ctx, exec.CommandContext(ctx, "/bin/sleep", "1000")); err != nil {
		t.Fatal(err)
	}
	cancel()
	if r, err := p.Wait(); err == nil || r.Exit != 137 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := l.start(t.Context(), exec.Command("/nonexistent")); err == nil {
		t.Error("a program that is not there starts")
	}
}
