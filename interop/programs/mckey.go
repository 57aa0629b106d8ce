//go:build linux

package programs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/softhca/softhca/interop/frames"
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

// mckeyVariant is what the receivers and the senders get, and how many messages
// the latter send.
type mckeyVariant struct {
	name, receivers, senders string
	messages                 int
}

var mckeyVariants = []mckeyVariant{
	{"plain", "", "", 10}, {"send-only", "", "-o", 10}, {"large", "-S 1024 -C 50", "-S 1024 -C 50", 50}, {"none", "-C 0", "-C 0", 0},
	{"two", "-c 2 -C 20", "-c 2 -C 10", 20},
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
		Dims:  []matrix.Dim{variants, matrix.Direction(), matrix.MTU()},
		Short: func(c matrix.Cell) bool { return c.Is("variant", "plain") && c.Is("mtu", "1024") },
		Cost:  5 * time.Second,
		// rxe loses messages to a group now and then when it sends them.
		Tries: 3,
		Run:   runMckey,
	}}
}

func runMckey(ctx context.Context, l *lab.Lab, c matrix.Cell) suite.Outcome {
	v := mckeyVariants[slices.IndexFunc(mckeyVariants, func(v mckeyVariant) bool { return c.Is("variant", v.name) })]
	ours, guest := v.receivers, v.senders+" -s"
	if c.Is("dir", "client") {
		ours, guest = guest, ours
	}
	// A receiver waits forever for what was lost.
	const line = "timeout -s INT 20 mckey -m %s -b %v %s"
	p := pair{Lab: l, own: l.Own(c),
		ours:     strings.Fields(fmt.Sprintf(line, group, l.Own(c), ours)),
		guest:    "exec " + fmt.Sprintf(line, group, l.Peer(c), guest),
		ourReady: func(context.Context, lab.Process) error { return nil }, // senders wait for three seconds
		ready: func(ctx context.Context) error {
			_, err := l.Succeed(ctx, "until grep -q "+groupMAC+" /proc/net/dev_mcast; do sleep 0.05; done")
			return err
		},
	}
	o := p.both(ctx, c)
	if c.Is("dir", "client") {
		return o
	}
	const note = "rxe sometimes sends fewer messages than requested; every sent one arrived"
	if o.Verdict == suite.Fail {
		fs, err := l.Frames(ctx)
		if sent := multicasts(fs); err == nil && 0 < sent && sent < v.messages {
			o = suite.Passed(note).With("%d of %d on the wire", sent, v.messages)
			o.Spoiled = true
		}
		return o
	}
	o.Note = note
	return o
}

// multicasts counts the messages of the guest to a group. That our adapter accepted each
// is checked as in every case.
func multicasts(fs []frames.Frame) (n int) {
	for i := range fs {
		if !fs[i].Out && fs[i].Dst.IsMulticast() {
			n++
		}
	}
	return n
}
