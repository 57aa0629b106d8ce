//go:build linux

package check

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/observe"
	"github.com/softhca/softhca/internal/restrack"
	"github.com/softhca/softhca/internal/restrack/file"
	"github.com/softhca/softhca/internal/sysfs"
)

// boardOf returns the counters of a table.
func boardOf(f *file.File) *device.Board { return (*device.Board)(f.Board()) }

// place returns the description of a process that has the board of an image.
func place(addr netip.Addr, b *sysfs.Attached) restrack.Process {
	p := restrack.Process{Addr: addr.As16()}
	path, at := b.Place()
	copy(p.Board[:], path)
	p.BoardOffset = uint64(at)
	return p
}

// observed returns the sum of a counter over the running adapters with an address, as softhca metrics
// adds them: each board once.
func observed(t *testing.T, addr netip.Addr) (sent uint64) {
	t.Helper()
	s := observe.NewSet()
	defer s.Close()
	all, _ := s.Read() // root may see other users' tables that cannot be read
	seen := make(map[string]bool)
	for _, a := range all {
		if a.Addr != addr || a.Name != "softhca0" || !a.Running || a.Board != "" && seen[a.Board] {
			continue
		}
		seen[a.Board] = true
		sent += a.Counters.SentPkts
	}
	return sent
}

// TestW1_CountersOfSeveralProcesses has processes share an adapter's address, of which one has the board
// of the image: the files of sysfs, netlink and internal/observe show the sum.
func TestW1_CountersOfSeveralProcesses(t *testing.T) {
	b := newBenchAt(t, newAddr()) // with 4711
	sent := func() string { return strings.TrimSpace(b.output(t, "cat", counts+"sent_pkts")) }
	check := func(why string, want uint64) {
		t.Helper()
		if got := sent(); got != strconv.FormatUint(want, 10) {
			t.Errorf("%s: sysfs shows %s, want %d", why, got, want)
		}
		if got := observed(t, b.addr); got != want {
			t.Errorf("%s: the tables have %d, want %d", why, got, want)
		}
		if _, err := exec.LookPath("rdma"); err != nil {
			return // netlink reads the files of sysfs
		}
		if got := b.output(t, "rdma", "statistic"); !strings.Contains(got, fmt.Sprintf("sent_pkts %d ", want)) {
			t.Errorf("%s: rdma statistic shows %s, want %d", why, got, want)
		}
	}
	first := publish(t, place(b.addr, b.board))
	check("one process", 4711)
	second, third := newTable(t, b.addr, 1), newTable(t, b.addr, 2)
	boardOf(second).Engine.SentPkts, boardOf(third).Engine.SentPkts = 1000, 200000
	boardOf(newTable(t, newAddr(), 3)).Engine.SentPkts = 1 << 40 // another adapter
	check("three processes", 205711)

	other := newBoard(t, b.addr) // which several programs that ran one after the other may have had
	other.Engine.SentPkts = 3000000
	fourth := publish(t, place(b.addr, other))
	check("a process of another image", 3205711)
	must.Do(t, fourth.Remove())

	path, contents := loose(t, second)
	contents[48]++ // the start of the process: it has ended
	write(t, path, contents)
	check("a process was killed", 204711)

	if err := sysfs.AddEnded(b.root, 0, boardOf(third), func() { must.Do(t, third.Remove()) }); err != nil {
		t.Error(err)
	}
	if got := sent(); got != "204711" {
		t.Errorf("after a process has ended sysfs shows %s, want 204711 as before", got)
	}
	must.Do(t, first.Remove())
	if got := sent(); got != "204711" {
		t.Errorf("after the process with the board has ended sysfs shows %s, want 204711 as before", got)
	}
}

// TestW1_ReadersWaitForOneThatEnds reads a counter while a process has added its counts and still has
// its table: the reader waits for the process and counts it once.
func TestW1_ReadersWaitForOneThatEnds(t *testing.T) {
	b := newBenchAt(t, newAddr())
	ends := newTable(t, b.addr, 1)
	boardOf(ends).Engine.SentPkts = 1000
	var out strings.Builder
	reader := b.command(t, "", "cat", counts+"sent_pkts")
	reader.Stdout = &out
	must.Do(t, sysfs.AddEnded(b.root, 0, boardOf(ends), func() {
		must.Do(t, reader.Start())
		<-time.After(30 * time.Millisecond) // much longer than cat needs
		must.Do(t, ends.Remove())
	}))
	must.Do(t, reader.Wait())
	if got := out.String(); got != "5711\n" {
		t.Errorf("while a process ended sysfs showed %q, want 5711", got)
	}
}

// newBoard returns the board of another image for an adapter with an address.
func newBoard(t *testing.T, addr netip.Addr) *sysfs.Attached {
	t.Helper()
	p, err := sysfs.Show(sysfs.Description{Name: "softhca0", Identity: device.Identity{
		NodeGUID: firstGUID + benches.Add(1), Addrs: []netip.Addr{addr}, Interfaces: []string{"lo"},
	}})
	must.Do(t, err)
	b, err := sysfs.Attach(p.Root, 0)
	must.Do(t, err)
	t.Cleanup(func() {
		if err := errors.Join(b.Close(), p.Lock.Close()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// TestW1_StateOfSeveralProcesses checks that a port is up while it is for a running process.
func TestW1_StateOfSeveralProcesses(t *testing.T) {
	b := newBenchAt(t, newAddr())
	first, second := publish(t, place(b.addr, b.board)), newTable(t, b.addr, 1)
	for _, c := range []struct {
		own, other uint64
		want       string
	}{{0, 0, "4: ACTIVE\n"}, {1, 0, "4: ACTIVE\n"}, {0, 1, "4: ACTIVE\n"}, {1, 1, "1: DOWN\n"}} {
		b.board.Down.Store(c.own)
		boardOf(second).Down.Store(c.other)
		if got := b.output(t, "cat", dev+"/ports/1/state"); got != c.want {
			t.Errorf("down in one process: %d, in the other: %d: the port is %q, want %q", c.own, c.other, got, c.want)
		}
	}
	must.Do(t, first.Remove())
	boardOf(second).Down.Store(0)
	if got := b.output(t, "cat", dev+"/ports/1/state"); got != "4: ACTIVE\n" {
		t.Errorf("the process with the board has ended while its port was down: the port of another process is %q", got)
	}
}

// TestW1_CountersNeverDecrease reads a counter again and again while processes come, count and end.
func TestW1_CountersNeverDecrease(t *testing.T) {
	b := newBenchAt(t, newAddr())
	cmd := b.command(t, "", "sh", "-c", `last=0; n=0; while [ -e "$1" ]; do read -r x < `+counts+`sent_pkts || exit 1
		[ "$x" -ge "$last" ] || echo "$x after $last"; [ "$x" -ne "$last" ] && n=$((n + 1)); last=$x; done; echo "$last after $n changes"`, "sh", b.root+"/going")
	write(t, b.root+"/going", nil)
	var out strings.Builder
	cmd.Stdout = &out
	must.Do(t, cmd.Start())
	const lives = 1000
	for range lives {
		f, err := file.Create(boardSize)
		must.Do(t, err)
		p := restrack.Process{Addr: b.addr.As16()}
		copy(p.Device[:], "softhca0")
		must.Do(t, f.Publish(p))
		for range 100 {
			boardOf(f).Engine.SentPkts++
		}
		if err := sysfs.AddEnded(b.root, 0, boardOf(f), func() { must.Do(t, f.Close()) }); err != nil {
			t.Error(err)
		}
	}
	must.Do(t, os.Remove(b.root+"/going"))
	must.Do(t, cmd.Wait())
	var last, changes int
	if _, err := fmt.Sscanf(out.String(), "%d after %d changes", &last, &changes); err != nil || changes < 10 {
		t.Errorf("the counter went back, or was hardly seen to change: %s", out.String())
	}
	if got := b.output(t, "cat", counts+"sent_pkts"); got != fmt.Sprintln(4711+100*lives) {
		t.Errorf("the counter is %s at the end, want %d", got, 4711+100*lives)
	}
}
