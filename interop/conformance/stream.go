package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/interop/ends"
)

// Open opens the two ends of a case anew, ours with these rules of faults at
// its port; see docs/faults.md.
type Open func(ctx context.Context, rules string) (Pair, error)

// Close closes both ends.
func (p Pair) Close() error { return errors.Join(p.Requester.Close(), p.Responder.Close()) }

// Faulty is a network for streams.
type Faulty struct {
	Name  string
	Rules string
	// Slow says why such a network may break a connection at present; "" if it
	// may not.
	Slow string
	// Damages says that it puts corrupt packets on the wire.
	Damages bool
}

const (
	loss      = "drop p=0.01 dir=both"
	duplicate = "dup p=0.01 dir=both"
	reorder   = "reorder p=0.01 dir=both"
	damage    = "corrupt xor=1 p=0.01 dir=both" // one bit
)

// FaultyNetworks lists the faults, alone and together.
func FaultyNetworks() []Faulty {
	const slow = "every loss costs a timeout until loss is recovered from within a round trip"
	join := func(rules ...string) string { return strings.Join(rules, "; ") }
	return []Faulty{
		{Name: "loss", Rules: loss},
		{Name: "duplicates", Rules: duplicate},
		{Name: "reordering", Rules: reorder},
		{Name: "damage", Rules: damage, Damages: true},
		{Name: "loss and reordering", Rules: join(loss, reorder), Slow: slow},
		{Name: "everything", Rules: join(loss, duplicate, reorder, damage), Slow: slow, Damages: true},
	}
}

// load is the messages of each stream.
var load = [...]batch{{ib.WRSend, 9000, 30}, {ib.WRRDMAWrite, 60000, 4}, {ib.WRRDMARead, 60000, 4}}

// rates are bytes in a second by operation.
type rates [len(load)]float64

// Stream sends data through a network and verifies it, turns turns of each
// operation, and reports its rate as a share of the rate without faults.
func Stream(ctx context.Context, open Open, f Faulty, turns int) Result {
	undisturbed, r := stream(ctx, open, Faulty{Name: "undisturbed"}, turns)
	if r.Verdict == Fail {
		return r
	}
	got, r := stream(ctx, open, f, turns)
	if r.Verdict == Pass {
		var shares []string
		for i, b := range load {
			shares = append(shares, fmt.Sprintf("%s %.0f %%", b.opcode, 100*got[i]/undisturbed[i]))
		}
		r.Measured = strings.Join(shares, ", ") + " of the undisturbed rate; " + r.Measured
	}
	return r
}

func stream(ctx context.Context, open Open, f Faulty, turns int) (got rates, r Result) {
	name := "RC data, " + f.Name
	p, err := open(ctx, f.Rules)
	if err != nil {
		return got, (&judge{}).result(name, err)
	}
	t := p.begin(ctx, p.hardy(f.Name))
	if t.err == nil {
		got = t.stream(turns)
	}
	var status statusError
	if errors.As(t.err, &status) && ib.WCStatus(status) == ib.WCRetryExcErr && f.Slow != "" {
		t.isKnown("the connection ended with RETRY_EXC_ERR: %s", f.Slow)
		t.err = nil
	}
	checkFaults(t.judge, p, f)
	return got, p.closed(p.evidence(t.result(name, t.err)))
}

// closed closes the ends; that is a part of the case.
func (p Pair) closed(r Result) Result {
	if err := p.Close(); err != nil && r.Verdict != Fail {
		return Result{Name: r.Name, Verdict: Fail, Note: err.Error()}
	}
	return r
}

// checkFaults checks that each fault rule has acted.
func checkFaults(j *judge, p Pair, f Faulty) {
	var acted []string
	for _, e := range []ends.End{p.Requester, p.Responder} {
		o, ok := e.(*ends.Ours)
		if !ok {
			continue
		}
		for _, s := range o.Context().FaultStats() {
			j.expect(s.Applied > 0, "%q acted on none of %d packets", s.Rule, s.Matched)
			kind, _, _ := strings.Cut(s.Rule, " ")
			acted = append(acted, fmt.Sprintf("%d %s", s.Applied, kind))
		}
	}
	if f.Rules != "" {
		j.measure("%s", strings.Join(acted, ", "))
	}
}

// hardy is a plan for a connection that must survive faults.
func (p Pair) hardy(name string) plan {
	pl := p.plan(ib.RC)
	pl.named(name)
	pl.attr.Timeout = 14
	return pl
}

// stream moves the load in turns.
func (t *steps) stream(turns int) (got rates) {
	there := t.lanes()[0]
	for i, b := range load {
		var took time.Duration
		for turn := range turns {
			took += t.transfer(there, b, uint64(i*turns+turn+1))
			if t.err != nil {
				t.err = fmt.Errorf("%s, turn %d: %w", b, turn, t.err)
				return got
			}
		}
		got[i] = float64(turns) * float64(b.bytes()) / took.Seconds()
	}
	return got
}
