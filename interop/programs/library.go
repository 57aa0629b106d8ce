//go:build linux

package programs

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/softhca/softhca/interop/frames"
	"github.com/softhca/softhca/interop/lab"
	"github.com/softhca/softhca/interop/matrix"
	"github.com/softhca/softhca/interop/suite"
)

// native is a program of Debian's that runs on our library here and on rdma_rxe in
// the guest.
type native struct {
	flags    string         // for both sides
	gid, mtu string         // options of the GID's index and of the path MTU; mtu may be "" for none
	polls    bool           // it has no option to wait for events
	says     *regexp.Regexp // what each side prints when it has succeeded
}

// The last line of pingpongs, and the line of perftest's table with an average rate
// other than 0.
var (
	pinged = regexp.MustCompile(`(?m)^\d+ bytes in \S+ seconds = \S+ Mbit/sec$`)
	rated  = regexp.MustCompile(`(?m)^ *65536 +100 +\S+ +(\d*[1-9]\d*\.\d+|0\.\d*[1-9]\d*)\s`)
)

// natives are the programs. The pingpongs send few messages, so that a side
// without CPU time for a while loses none: UC and UD would not repeat them.
var natives = map[string]native{
	"ibv_rc_pingpong":  {flags: "-n 40 -s 8192 -c", gid: "-g", mtu: "-m", says: pinged},
	"ibv_uc_pingpong":  {flags: "-n 40 -s 8192 -c", gid: "-g", mtu: "-m", says: pinged},
	"ibv_ud_pingpong":  {flags: "-n 40 -s 1024 -c", gid: "-g", says: pinged},
	"ibv_srq_pingpong": {flags: "-n 40 -s 8192 -c", gid: "-g", mtu: "-m", says: pinged},
	"ib_write_bw":      {flags: "-F -n 100 -s 65536", gid: "-x", mtu: "-m", says: rated, polls: true},
	"ib_send_bw":       {flags: "-F -n 100 -s 65536", gid: "-x", mtu: "-m", says: rated},
	"ib_read_bw":       {flags: "-F -n 100 -s 65536", gid: "-x", mtu: "-m", says: rated},
}

// library are the cases in which the same program of Debian's runs on both sides.
func library() []suite.Family {
	pings := libraryFamily("library-pingpong", "ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong")
	pings.About += "the pingpongs of ibverbs-utils, whose servers look at a byte of each page that they receive"
	pings.Loose = suite.Gone // they exit after their last message
	pings.Short = func(c matrix.Cell) bool {
		return c.Is("program", "ibv_rc_pingpong") && c.Is("ip", "ipv4") && c.Is("mtu", "1024") && c.Is("wait", "events")
	}
	perf := libraryFamily("library-perftest", "ib_write_bw", "ib_send_bw", "ib_read_bw")
	perf.About += "100 messages of 64 KiB of perftest, which looks at none; measured is the rate that the client tells"
	perf.Short = func(c matrix.Cell) bool {
		return c.Is("program", "ib_write_bw") && c.Is("ip", "ipv4") && c.Is("mtu", "1024")
	}
	return []suite.Family{pings, perf}
}

// libraryFamily returns the common part of the families of some programs.
func libraryFamily(name string, programs ...string) suite.Family {
	return suite.Family{
		Name:  name,
		About: "Debian's own binaries on our libibverbs.so.1, by softhca run, with the same on rdma_rxe: ",
		Dims: []matrix.Dim{
			{Name: "program", Values: programs}, matrix.Direction(), matrix.IP(), matrix.MTU(), {Name: "wait", Values: []string{"poll", "events"}},
		},
		Skip: func(c matrix.Cell) bool {
			n := natives[c.Get("program")]
			return n.polls && c.Is("wait", "events") || n.mtu == "" && c.Is("mtu", "4096")
		},
		Always: true,
		Cost:   time.Second,
		Run:    runLibrary,
	}
}

// runLibrary runs a program on both sides. It checks the output, our counters
// and our capture.
func runLibrary(ctx context.Context, l *lab.Lab, c matrix.Cell) suite.Outcome {
	n := natives[c.Get("program")]
	p := n.pair(l, c)
	e, err := p.run(ctx, c)
	o := e.outcome(err)
	fs, unseen := l.Frames(ctx)
	switch {
	case unseen != nil:
		return suite.Failed("%v", unseen)
	case o.Verdict != suite.Pass && e.left(fs):
		return suite.Passed("").With("one side had ended when an acknowledgement of its was lost")
	case o.Verdict != suite.Pass:
		if f := frames.Reshaped(fs); f != nil {
			o.Spoiled = true
			o.Note += fmt.Sprintf("; Linux had sent a packet again as another operation: %v", f)
		}
		return o
	}
	if o = n.check(&e, c); o.Verdict != suite.Pass {
		return o
	}
	if err := compareCapture(l.Capture(), l.Own(c), fs); err != nil {
		return suite.Failed("our capture: %v", err)
	}
	return repeated(o, l.OwnCounters())
}

// pair returns the two sides of a cell, which always exchange their addresses over
// TCP and IPv4.
func (n *native) pair(l *lab.Lab, c matrix.Cell) *pair {
	line := c.Get("program") + " " + n.flags
	if n.mtu != "" {
		line += " " + n.mtu + " " + c.Get("mtu")
	}
	if c.Is("wait", "events") {
		line += " -e"
	}
	return pingpongs(l, c, line, n.gid)
}

// pingpongPort is the TCP port on which two pingpongs, or perftests, exchange their addresses.
const pingpongPort = 18515

// pingpongs returns the two sides of a command line, to which each adds the index of its
// GID with the option gid.
func pingpongs(l *lab.Lab, c matrix.Cell, line, gid string) *pair {
	ours, guest := fmt.Sprintf("%s %s 0", line, gid), fmt.Sprintf("exec %s %s %d", line, gid, l.GIDIndex(c))
	if c.Is("dir", "server") {
		guest += " " + l.Own(matrix.Cell{}).String()
	} else {
		ours += " " + l.Peer(matrix.Cell{}).String()
	}
	return &pair{Lab: l, own: l.Own(c), ours: strings.Fields(ours), guest: guest,
		ready:    func(ctx context.Context) error { return l.TCPListener(ctx, pingpongPort) },
		ourReady: func(ctx context.Context, _ lab.Process) error { return l.OwnTCPListener(ctx, pingpongPort) },
	}
}

// invalid matches a pingpong's message about a damaged page, after which it
// goes on.
var invalid = regexp.MustCompile(`invalid data in page \d+`)

// unclocked matches perftest's message that it could not measure its clock, because
// it lacked CPU time. Every rate is 0 then, also on the other side.
var unclocked = regexp.MustCompile(`Correlation coefficient r\^2: \S+ < \S+`)

// check returns the outcome of programs that exited with 0, from their output.
func (n *native) check(e *ends, c matrix.Cell) suite.Outcome {
	clock := unclocked.FindString(e.ours.Stderr + e.guest.Stderr)
	for _, s := range []struct{ who, text string }{{"ours", e.ours.Stdout}, {"guest", e.guest.Stdout}} {
		if !n.says.MatchString(s.text) {
			o := suite.Failed("%s: it prints no result: %s", s.who, lastLines(s.text))
			if clock != "" {
				o = suite.Failed("no clock: %s", clock)
				o.Spoiled = true
			}
			return o
		}
		if found := invalid.FindString(s.text); found != "" {
			return suite.Failed("%s: %s", s.who, found)
		}
	}
	o := suite.Passed("")
	if n.says == rated {
		o = o.With("%s MB/s", rated.FindStringSubmatch(e.client(c).Stdout)[1])
	}
	return o
}

// lastLines returns the last lines that a program printed, in one.
func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], " | ")
}

// asked are our counters of reasons for retransmission: timeouts and NAKs.
var asked = []string{"probes", "local_ack_timeout_err", "rcvd_seq_err", "rcvd_rnr_err", "implied_nak_seq_err"}

// repeated is the outcome of a case in which nothing is lost: our retransmissions
// need a reason.
func repeated(o suite.Outcome, own lab.Counters) suite.Outcome {
	again := own["retrans_pkts"]
	if again == 0 {
		return o
	}
	var why []string
	for _, name := range asked {
		if v := own[name]; v > 0 {
			why = append(why, fmt.Sprintf("%s %d", name, v))
		}
	}
	if len(why) == 0 {
		return suite.Failed("we sent %d packets again, and neither did the peer ask for it nor was it silent", again)
	}
	return o.With("%s", strings.TrimPrefix(fmt.Sprintf("%s; %d packets sent again: %s", o.Measured, again, strings.Join(why, ", ")), "; "))
}
