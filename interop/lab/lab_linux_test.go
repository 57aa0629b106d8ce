package lab

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/must"
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
	// A multicast group that the guest has joined: it counts its own packets,
	// or some of them.
	for n, want := range map[int64]int64{3: 3, 5: 3, 7: 3, 8: 4} {
		x.InGroup, x.Peer["rcvd_pkts"] = 4, n
		if got := x.Taken(); got != want {
			t.Errorf("with %d counted, %d of ours are taken, not %d", n, got, want)
		}
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
	l := &Lab{Dir: t.TempDir(), files: t.TempDir(), own: newOwn()}
	must.Do(t, os.Symlink("/bin/echo", filepath.Join(l.files, Command)))
	p, err := l.Ours(t.Context(), "a")
	must.Do(t, err)
	if r, err := p.Wait(); err != nil || !r.OK() || !strings.HasPrefix(r.Stdout, "a --capture "+l.Dir) {
		t.Errorf("%+v, %v", r, err)
	}
	if p, err = begin(t.Context(), l, exec.Command("/bin/sh", "-c", `trap 'exit 4' INT; echo ready; while :; do sleep 0.01; done`)); err != nil {
		t.Fatal(err)
	}
	must.Do(t, p.Await(t.Context(), regexp.MustCompile("ready")))
	must.Do(t, p.Signal(syscall.SIGINT))
	if r, err := p.Wait(); err != nil || r.Exit != 4 {
		t.Errorf("%+v, %v", r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if p, err = begin(ctx, l, exec.CommandContext(ctx, "/bin/sleep", "1000")); err != nil {
		t.Fatal(err)
	}
	cancel()
	if r, err := p.Wait(); err == nil || r.Exit != 137 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := begin(t.Context(), l, exec.Command("/nonexistent")); err == nil {
		t.Error("a program that is not there starts")
	}
}

func begin(ctx context.Context, l *Lab, cmd *exec.Cmd) (Process, error) {
	p := &local{cmd: cmd}
	return p, l.start(ctx, p)
}

// Our command logs its counters when it exits; a killed one leaves the case
// without them.
func TestParseTold(t *testing.T) {
	const open = `time=2030-01-02T03:04:05.678Z level=INFO msg="adapter open" addr=10.77.0.1 transport=udp` + "\n"
	const end = "time=2030-01-02T03:04:06.678Z level=INFO msg=counters sent_pkts=7 rcvd_pkts=9 drop_no_qp=1\n"
	const rules = `fault "drop p=0.01 dir=in op=RC" acted 3 times` + "\n" + `fault "dup p=0.01 dir=out op=RC" acted 4 times` + "\n"
	for _, c := range []struct {
		text   string
		rcvd   int64
		faulty int64
		ok     bool
	}{
		{open + "softhca: x\n" + end + rules, 9, 3, true},
		{open, 0, 0, false},
		{"softhca: no adapter\n", 0, 0, true},
		{open + "time=2030-01-02T03:04:06.678Z level=INFO msg=counters rcvd_pkts=many\n", 0, 0, false},
		{open + "time=noon level=INFO msg=counters rcvd_pkts=1\n", 0, 0, false},
	} {
		got, ok := parseTold(c.text)
		if ok != c.ok || ok && (got.Counters["rcvd_pkts"] != c.rcvd || got.Faulty != c.faulty) || c.rcvd > 0 && got.At.Nanosecond() != 678_000_000 {
			t.Errorf("%q: %+v, %v", c.text, got, ok)
		}
	}
	if text := withoutLog(open + "a\n" + end + "b\n"); text != "a\nb\n" {
		t.Errorf("beside the log: %q", text)
	}
}

// The counters of a program on our library are reported when it has exited; a
// killed one leaves the case without them.
func TestParseObserved(t *testing.T) {
	const ended = "Failed status\ninterop: ended 1900000000.678000000\n"
	const counted = "interop: rcvd_pkts 9\ninterop: drop_malformed 1\ninterop: drop_icrc_errors 2\ninterop: excessive_buffer_overrun_errors 3\ninterop: port_rcv_errors 7\n"
	for text, ok := range map[string]bool{
		ended + counted: true, ended: false, counted: false, "": false,
		"interop: ended noon\n" + counted: false, ended + counted + "interop: sent_pkts many\n": false,
	} {
		got, good := parseObserved(text)
		c := got.Counters
		if good != ok || ok && (got.At.UnixMilli() != 1900000000678 || c["rcvd_pkts"] != 9 || c["port_overflows"] != 3 || c["port_truncated"] != 4) {
			t.Errorf("%q: %+v, %v", text, got, good)
		}
	}
	const log = `time=2030-01-02T03:04:05.678Z level=INFO msg="listening on 10.77.0.1:7471"` + "\n"
	const rules = `time=2030-01-02T03:04:06Z level=INFO msg="fault rule" rule="drop nth=1 op=REQ" acted=3` + "\n" +
		`time=2030-01-02T03:04:06Z level=INFO msg="fault rule" rule="drop dir=out op=\"REP\"" acted=1` + "\n"
	if text := withoutLog("a\n" + counted + log + "b\n" + rules); text != "a\nb\n"+rules {
		t.Errorf("beside the counters: %q", text)
	}
	if got, ok := parseObserved(ended + counted + rules); !ok || got.Faulty != 3 {
		t.Errorf("rules acted %d times on what arrived, want 3", got.Faulty)
	}
	if all, _ := Acted(rules); all != 4 {
		t.Errorf("rules acted %d times, want 4", all)
	}
}

// A program on our library ends with its context, like the shell that looks after it.
func TestOnLibraryEnds(t *testing.T) {
	l := &Lab{Dir: t.TempDir(), files: t.TempDir(), own: newOwn()}
	const command = "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"\n"
	must.Do(t, os.WriteFile(filepath.Join(l.files, Command), []byte(command), 0o755))
	fifo := filepath.Join(l.Dir, "fifo")
	must.Do(t, unix.Mkfifo(fifo, 0o600))
	old := filepath.Join(l.Dir, "ours-1.pcapng")
	must.Do(t, os.WriteFile(old, []byte("of an earlier try"), 0o644))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p, err := l.OnLibrary(ctx, netns.Host4, []string{"--fault", "drop nth=1"}, "sh", "-c", "exec sleep 1000 >"+fifo)
	must.Do(t, err)
	if _, err := os.Stat(old); l.Capture() != old || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the capture of an earlier try is still in %s: %v", l.Capture(), err)
	}
	held, err := os.Open(fifo) // when the program has opened it
	must.Do(t, err)
	cancel()
	if n, err := held.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("%d, %v: want the end, as nobody has it open", n, err)
	}
	if r, err := p.Wait(); err == nil || r.Exit != 137 || l.own.Silent != 1 {
		t.Errorf("%+v, %v: %d told nothing", r, err, l.own.Silent)
	}
	must.Do(t, held.Close())
}

// An adapter with rules of faults that does not tell what they did tells nothing.
func TestFaultsAreTold(t *testing.T) {
	const counted = "interop: ended 1900000000.5\ninterop: rcvd_pkts 9\n"
	const rule = `time=2030-01-02T03:04:06Z level=INFO msg="fault rule" rule="drop nth=1" acted=1` + "\n"
	faults := []string{"--fault", "drop nth=1"}
	for _, c := range []struct {
		options []string
		said    string
		ok      bool
	}{{nil, counted, true}, {faults, counted, false}, {faults, counted + rule, true}} {
		if got, ok := toldBy(c.said, c.options); ok != c.ok || ok && got.Counters["rcvd_pkts"] != 9 {
			t.Errorf("%q, said %q: %+v, %t", c.options, c.said, got, ok)
		}
	}
}
