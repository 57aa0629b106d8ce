package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/softhca/softhca/cmd/softhca/internal/perf"
	"github.com/softhca/softhca/internal/fabric/sandbox"
	"github.com/softhca/softhca/internal/must"
)

// cut is a way to lose the first of two paths between two hosts.
type cut struct {
	name  string
	fault string // of the client
	do    func(t *testing.T, server *sandbox.Place, near, far string)
	needs string // a program
	told  bool   // the hosts inform the adapters: no request waits for retries
}

var cuts = []cut{
	{name: "a fault", fault: "drop path=primary after=300ms"},
	{name: "ip link down", told: true, do: func(t *testing.T, _ *sandbox.Place, near, _ string) { setDown(t, near) }},
	{name: "ip link down at the server", told: true, do: func(t *testing.T, server *sandbox.Place, _, far string) {
		server.Do(t, "ip link down", func() error {
			link, err := netlink.LinkByName(far)
			if err != nil {
				return err
			}
			return netlink.LinkSetDown(link)
		})
	}},
	{name: "nftables", needs: "nft", do: func(t *testing.T, server *sandbox.Place, _, far string) { server.DropFrom(t, far) }},
}

func setDown(t *testing.T, ifname string) {
	t.Helper()
	link, err := netlink.LinkByName(ifname)
	if err == nil {
		err = netlink.LinkSetDown(link)
	}
	if err != nil {
		t.Errorf("take %s down: %v", ifname, err)
	}
}

// Timeout and retries of the queue pairs of the test.
const (
	cutTimeout  = 33 * time.Millisecond // a step of the protocol
	cutInformed = 30 * time.Second      // if the adapters are informed: no timer may be needed
	cutRetries  = 4
	cutSlack    = 8 * time.Second // of a machine that does other things, too
)

// TestV15_TwoPaths cuts one of two paths between two hosts in the middle of
// WRITEs, in each way there is: they go on over the other path in the time that
// the retries take, at once where a host tells its adapter, both sides migrate,
// and what was written is right.
func TestV15_TwoPaths(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	for i, c := range cuts {
		t.Run(c.name, func(t *testing.T) { c.run(t, byte(i)) })
	}
}

// run measures over two pairs of interfaces, numbered apart from those of others.
func (c *cut) run(t *testing.T, n byte) {
	if _, err := exec.LookPath(c.needs); c.needs != "" && err != nil {
		t.Skipf("it needs a program: %v", err) // it is not ours
	}
	server := sandbox.NewPlace(t)
	var near, far [2]string // interfaces
	addr := func(path, host int) netip.Addr { return netip.AddrFrom4([4]byte{10, 70 + n, byte(path), byte(host)}) }
	for i := range near {
		near[i], far[i] = fmt.Sprintf("near%d%d", n, i), fmt.Sprintf("far%d%d", n, i)
		server.Join(t, near[i], far[i], netip.PrefixFrom(addr(i, 1), 24), netip.PrefixFrom(addr(i, 2), 24))
	}
	startServer(t, server, addr(0, 2), addr(1, 2))
	timeout, limit := cutTimeout, (cutRetries+1)*cutTimeout
	if c.told {
		timeout, limit = cutInformed, 0
	}
	// The TCP connection uses the remaining path.
	args := []string{
		"perf", "write", "--json", "--duration", "1500ms", "--timeout", timeout.String(), "--retry", fmt.Sprint(cutRetries),
		"--addr", addr(0, 1).String(), "--alt", addr(1, 1).String(), addr(1, 2).String(),
	}
	if c.fault != "" {
		args = append(args, "--fault", c.fault)
	}
	type outcome struct {
		code      int
		out, errs string
	}
	done := make(chan outcome, 1)
	go func() {
		code, out, errs := command(t, args...)
		done <- outcome{code, out, errs}
	}()
	if c.do != nil {
		awaitTraffic(t, near[0])
		c.do(t, server, near[0], far[0])
	}
	end := <-done
	var s perf.Summary
	if err := json.Unmarshal([]byte(end.out), &s); err != nil || end.code != exitOK {
		t.Fatalf("exit code %d, %q, %s", end.code, end.out, end.errs)
	}
	m := s.Migrated
	if m == nil || m.QPs != 1 || s.Server.Migrations != 1 {
		t.Fatalf("the client says %v; %d queue pairs of the server have migrated", m, s.Server.Migrations)
	}
	pause := time.Duration(m.Pause * float64(time.Millisecond))
	t.Logf("%v: nothing completed for %v; %d of %d packets sent again, %d timeouts", c.name, pause, s.Retransmits, s.Client.Sent, s.Client.Timeouts)
	if pause > limit+cutSlack {
		t.Errorf("nothing completed for %v; want at most %v, and %v for what else the machine does", pause, limit, cutSlack)
	}
}

// startServer starts a server of perf on another host, and waits until it
// listens.
func startServer(t *testing.T, at *sandbox.Place, first, second netip.Addr) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "perf", "write", "--addr", first.String(), "--alt", second.String())
	out, err := cmd.StderrPipe()
	must.Do(t, err)
	at.Do(t, "start a server", cmd.Start)
	r := bufio.NewReader(out)
	if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "serving") {
		t.Fatalf("the server says %q, %v", line, err)
	}
	t.Cleanup(func() {
		rest, _ := r.ReadString(0) // what it complains of, until it ends
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server: %v: %s", err, rest)
		}
	})
}

// awaitTraffic waits until much has left by an interface. It counts bytes, for an
// interface counts what the kernel segments later as one packet.
func awaitTraffic(t *testing.T, ifname string) {
	t.Helper()
	const much = 4 << 20
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var sent uint64
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); <-tick.C {
		link, err := netlink.LinkByName(ifname)
		must.Do(t, err)
		if s := link.Attrs().Statistics; s != nil {
			if sent = s.TxBytes; sent > much {
				return
			}
		}
	}
	t.Fatalf("only %d bytes have left by %s", sent, ifname)
}
