package judge

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/must"
)

// hasten makes a judge impatient: the adapter is in this process.
func hasten(c *Config) {
	c.Quiet, c.Wait, c.Timeout, c.RNRTimer = 16*time.Millisecond, 2*time.Second, 15, 26
}

// TestOurAdapterAgrees judges our own adapter, over UDP and in real time: it
// must agree with every script that can be judged. A machine that stalls may
// spoil a run, which the judge then calls unstable, and repeats.
func TestOurAdapterAgrees(t *testing.T) {
	var plans []*Plan
	for _, p := range plansFor(t) {
		if p.Reason == "" {
			plans = append(plans, p)
		}
	}
	const workers = 24
	work := make(chan *Plan)
	var all sync.WaitGroup
	var mu sync.Mutex // guards sum
	var sum Summary
	for range workers {
		c := judgeOf(t, "")
		hasten(c)
		all.Go(func() {
			for p := range work {
				err := c.Judge(context.Background(), []*Plan{p}, func(r *Result) {
					mu.Lock()
					sum.Add(r)
					mu.Unlock()
					if agreed := r.Verdict == Agrees || len(r.Unstable) > 0 && len(r.Differences) == 0; !agreed {
						t.Errorf("our own adapter, played as a stranger, does not agree:\n%s", r.Line(true))
					}
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, p := range plans {
		work <- p
	}
	close(work)
	all.Wait()
	t.Log(sum)
	if sum.Agree < len(plans)*9/10 {
		t.Errorf("%d of %d scripts were judged to the end", sum.Agree, len(plans))
	}
}

// TestReportHasNoAddress shows that a report has no address of the adapter.
func TestReportHasNoAddress(t *testing.T) {
	c := judgeOf(t, "")
	hasten(c)
	d := c.Agent.Device()
	d.Numbers = map[string]uint64{"node_guid": 0x1122334455667788, "max_qp": 5}
	r := NewReport(c, d, time.Now())
	must.Do(t, c.Judge(context.Background(), plansFor(t)[50:56], r.Add))
	var b bytes.Buffer
	must.Do(t, r.Write(&b))
	for _, secret := range []string{c.Peer.String(), c.Local.String(), "node_guid"} {
		if strings.Contains(b.String(), secret) {
			t.Errorf("the report has %s", secret)
		}
	}
	if r.Adapter.Numbers["max_qp"] != 5 || len(r.Results) != 6 || r.Setting.Timeout != c.Timeout {
		t.Errorf("the report lacks what it shall have: %+v", r)
	}
}
