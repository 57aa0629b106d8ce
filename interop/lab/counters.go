//go:build linux

package lab

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/softhca/softhca/interop/frames"
)

// Counters are those of the guest's RDMA device, by the kernel's names.
type Counters map[string]int64

// counters reads the guest's counters.
func (l *Lab) counters(ctx context.Context) (Counters, error) {
	const script = `cd /sys/class/infiniband/rxe0/ports/1/hw_counters && for f in *; do read v <$f && echo $f $v; done`
	r, err := l.Guest.Run(ctx, script)
	if err == nil && !r.OK() {
		err = fmt.Errorf("%v", r)
	}
	if err != nil {
		return nil, fmt.Errorf("lab: the guest's counters: %w", err)
	}
	return parseCounters(r.Stdout)
}

// parseCounters reads lines of a name and a number.
func parseCounters(text string) (Counters, error) {
	c := Counters{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("lab: counter %q: %w", line, err)
		}
		c[name] = n
	}
	return c, nil
}

// Traffic is the packets of a case as counted on the wire, by the peer's kernel
// and by our adapters.
type Traffic struct {
	frames.Counts
	Peer  Counters // how much the guest's counters grew
	Reset bool     // the guest's counters restarted in between
	Own   Own      // what our adapters counted
}

// Taken returns how many of our packets the guest's kernel counted. It also
// counts its own packets to a multicast group that it has joined, unless it
// drops them.
func (t *Traffic) Taken() int64 {
	n := t.Peer["rcvd_pkts"]
	return n - max(0, min(n-int64(t.Out), int64(t.InGroup)))
}

// Arrived returns how many packets the guest's kernel counted as sent, and how
// many of them arrived here.
func (t *Traffic) Arrived() (sent, came int64) {
	return t.Peer["sent_pkts"], int64(t.In + t.BadIn)
}

// Agreed reports whether the guest kernel's counts agree with the wire.
func (t *Traffic) Agreed() bool {
	sent, came := t.Arrived()
	return t.Taken() == int64(t.Out) && sent == came
}

// settling is how long wire and guest may differ while packets are on their
// way.
const settling = 3 * time.Second

// Traffic returns the traffic since the case began. It waits until both sides
// agree, for at most settling.
func (l *Lab) Traffic(ctx context.Context) (*Traffic, error) {
	l.mu.Lock()
	before, restart, own := l.before, l.restart, l.own.clone()
	l.mu.Unlock()
	for end := time.Now().Add(settling); ; {
		now, err := l.counters(ctx)
		if err != nil {
			return nil, err
		}
		if err := l.tap.Sync(ctx); err != nil {
			return nil, err
		}
		t := &Traffic{Counts: l.tap.Counts(), Peer: Counters{}, Reset: restart, Own: own}
		for name, v := range now {
			t.Peer[name] = v - before[name]
		}
		if restart || t.Agreed() || time.Now().After(end) {
			return t, nil
		}
	}
}
