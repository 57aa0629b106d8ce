//go:build linux

package programs

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/softhca/softhca/interop/lab"
	"github.com/softhca/softhca/interop/matrix"
	"github.com/softhca/softhca/interop/suite"
)

// The group of the cases and its Ethernet address as the guest's kernel
// prints it.
const (
	group    = "239.77.0.1"
	groupMAC = "01005e4d0001"
)

// mckeyVariants are flags of the receivers and the senders.
var mckeyVariants = []struct{ name, receivers, senders string }{
	{"plain", "", ""}, {"send-only", "", "-o"}, {"large", "-S 1024 -C 50", "-S 1024 -C 50"}, {"none", "-C 0", "-C 0"},
	{"two", "-c 2 -C 20", "-c 2 -C 10"},
}

// mckey are the cases of multicast. Linux's rdma_cm joins no IPv6 groups.
func mckey() []suite.Family {
	variants := matrix.Dim{Name: "variant"}
	for _, v := range mckeyVariants {
		variants.Values = append(variants.Values, v.name)
	}
	return []suite.Family{{
		Name:  "mckey",
		About: "mckey: datagrams to an IPv4 group; as server we receive, as client we send",
		Dims:  []matrix.Dim{variants, matrix.Direction(), matrix.MTU(), matrix.Transport()},
		Short: func(c matrix.Cell) bool {
			return c.Is("variant", "plain") && c.Is("mtu", "1024") && c.Is("transport", "udp")
		},
		Cost: 5 * time.Second,
		// rxe sometimes loses multicast messages when it sends them.
		Tries: 3,
		Run:   runMckey,
	}}
}

func runMckey(ctx context.Context, l *lab.Lab, c matrix.Cell) suite.Outcome {
	var receivers, senders string
	for _, v := range mckeyVariants {
		if c.Is("variant", v.name) {
			receivers, senders = v.receivers, v.senders+" -s"
		}
	}
	ours, guest := receivers, senders
	if c.Is("dir", "client") {
		ours, guest = senders+" --pause 1s", receivers
	}
	p := pair{Lab: l,
		ours:     strings.Fields(fmt.Sprintf("mckey -m %s -b %v --idle 5s --transport %s %s", group, l.Own(c), c.Get("transport"), ours)),
		guest:    fmt.Sprintf("exec timeout -s INT 20 mckey -m %s -b %v %s", group, l.Peer(c), guest),
		ourReady: func(context.Context, lab.Process) error { return nil }, // the guest's sender waits for three seconds
		ready: func(ctx context.Context) error {
			_, err := l.Succeed(ctx, "until grep -q "+groupMAC+" /proc/net/dev_mcast; do sleep 0.05; done")
			return err
		},
	}
	o := p.both(ctx, c)
	if c.Is("dir", "client") {
		return o
	}
	const note = "rxe now and then sends fewer messages than it is told to; each that was on the wire came"
	if o.Verdict == suite.Fail {
		text := spoiled(ctx, l, o.Note)
		if text == "" {
			return o
		}
		o = suite.Passed(note).With("%s", text)
		o.Spoiled = true
		return o
	}
	o.Note = note
	return o
}

// received matches our receiver's message about missing messages.
var received = regexp.MustCompile(`mckey: ([0-9]+) of ([0-9]+) messages received`)

// spoiled returns the guest's mistake if fewer messages were on the wire than
// its mckey should have sent, and ours received all of them.
func spoiled(ctx context.Context, l *lab.Lab, said string) string {
	m := received.FindStringSubmatch(said)
	fs, err := l.Frames(ctx)
	if m == nil || err != nil {
		return ""
	}
	sent := 0
	for i := range fs {
		if !fs[i].Out && fs[i].Dst.IsMulticast() {
			sent++
		}
	}
	if m[1] != strconv.Itoa(sent) || sent == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %s on the wire", sent, m[2])
}
