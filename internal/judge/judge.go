package judge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/testagent"
)

// Config says which adapter is judged, and how long it may take.
type Config struct {
	Agent       *testagent.Client
	Port        fabric.Port // ours, on Local
	Local, Peer netip.Addr

	Quiet    time.Duration // how long nothing must come before a step counts as over; default DefaultQuiet
	Wait     time.Duration // how long an expected packet or event may take; default DefaultWait
	Timeout  uint8         // code of the retry timer in place of the scripts'; default DefaultTimeout
	RNRTimer uint8         // code of the RNR NAK timer in place of the scripts'; 0 is the longest
	Runs     int           // how often a difference must be seen; default DefaultRuns

	gidIndex int
}

// Defaults that suit an adapter in an emulated machine.
const (
	DefaultQuiet   = 200 * time.Millisecond
	DefaultWait    = 1500 * time.Millisecond
	DefaultTimeout = 18 // 1.07 s
	DefaultRuns    = 3
)

// setDefaults fills in the fields that are zero.
func (c *Config) setDefaults() {
	c.Quiet, c.Wait = cmp.Or(c.Quiet, DefaultQuiet), cmp.Or(c.Wait, DefaultWait)
	c.Timeout, c.Runs = cmp.Or(c.Timeout, DefaultTimeout), cmp.Or(c.Runs, DefaultRuns)
}

// prepare finds the adapter's address.
func (c *Config) prepare() error {
	c.setDefaults()
	d := c.Agent.Device()
	i, ok := d.GIDIndex(c.Peer)
	if !ok {
		return fmt.Errorf("the adapter %s has no RoCEv2 GID for %v: name the peer by an address of the adapter's interface", d.Name, c.Peer)
	}
	c.gidIndex = i
	return nil
}

// Judge plays plans to the adapter and calls done after each. A script that
// differs is played again: a difference counts if every run shows it.
func (c *Config) Judge(ctx context.Context, plans []*Plan, done func(*Result)) error {
	if err := c.prepare(); err != nil {
		return err
	}
	w := newWire(c.Port, c.Local, c.Peer)
	for _, p := range plans {
		r, err := c.one(ctx, p, w)
		if err != nil {
			return err
		}
		done(r)
	}
	return nil
}

func (c *Config) one(ctx context.Context, p *Plan, w *wire) (*Result, error) {
	if p.Reason != "" {
		return &Result{Script: p.Script, Title: p.Title, Covers: p.Covers, Verdict: NotJudged, Reason: p.Reason}, nil
	}
	r, err := c.play(ctx, p, w)
	if err != nil || r.Verdict != Differs {
		return r, err
	}
	all := []*Result{r}
	for len(all) < c.Runs {
		again, err := c.play(ctx, p, w)
		if err != nil {
			return nil, err
		}
		all = append(all, again)
	}
	return merge(all), nil
}

// merge makes one result of several runs: a difference in all of them counts,
// one in some of them makes the script unstable.
func merge(all []*Result) *Result {
	out := *all[0]
	out.Runs, out.Differences = len(all), nil
	for i := range all[0].Differences {
		d := &all[0].Differences[i]
		if everywhere(all[1:], d) {
			out.Differences = append(out.Differences, *d)
		} else {
			out.Unstable = append(out.Unstable, *d)
		}
	}
	for _, r := range all[1:] {
		for i := range r.Differences {
			d := &r.Differences[i]
			if !contains(out.Differences, d) && !contains(out.Unstable, d) {
				out.Unstable = append(out.Unstable, *d)
			}
		}
	}
	if len(out.Differences) == 0 {
		out.Verdict, out.Reason = NotJudged, fmt.Sprintf("its %d runs differ from each other", len(all))
	}
	return &out
}

func everywhere(all []*Result, d *Difference) bool {
	return !slices.ContainsFunc(all, func(r *Result) bool { return !contains(r.Differences, d) })
}

func contains(list []Difference, d *Difference) bool {
	return slices.ContainsFunc(list, func(o Difference) bool { return o.same(d) })
}

// ErrDiffers says that an adapter differs from a script.
var ErrDiffers = errors.New("the adapter differs")
