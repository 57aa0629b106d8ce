//go:build linux

package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/softhca/softhca/interop/frames"
	"github.com/softhca/softhca/interop/lab"
)

// Result is the outcome of a case.
type Result struct {
	ID      string            `json:"id"`
	Family  string            `json:"family"`
	Values  map[string]string `json:"values"` // of the dimensions, by their names
	Verdict Verdict           `json:"verdict"`
	Note    string            `json:"note,omitempty"`
	// Measured are figures, which differ from run to run.
	Measured string  `json:"measured,omitempty"`
	Tries    int     `json:"tries"`
	Seconds  float64 `json:"seconds"`
	Sent     int     `json:"sent"`     // packets that we sent, all with a right ICRC
	Taken    int64   `json:"taken"`    // how many of them the peer's kernel counted
	Got      int     `json:"received"` // packets that it sent, all with a right ICRC
	Accepted int64   `json:"accepted"` // how many of them our adapters counted
	Late     int64   `json:"late"`     // how many came when no adapter of ours was open or reading
	Exact    bool    `json:"exact"`    // all packets that came are accounted for: no fault, no killed adapter, no queue pair that ends early
	Messages int     `json:"messages"` // complete messages on the wire, both ways, retransmissions not counted
	Verified int     `json:"verified"` // how many of them met faults at our port with their data compared, if the case passed
	Dir      string  `json:"dir,omitempty"`
}

// spoiledTries is how often a spoiled case is tried.
const spoiledTries = 3

// defaultLimit is the time limit of a case whose family has none.
const defaultLimit = 2 * time.Minute

// Run runs a case in the lab, as often as its family allows. It keeps the files
// of a failed case below dir; with keep also those of the others.
func Run(ctx context.Context, l *lab.Lab, c Case, dir string, keep bool) (Result, error) {
	r := Result{ID: c.ID(), Family: c.Name, Values: map[string]string{}}
	for _, name := range append([]string{"kernel"}, c.DimNames()...) {
		r.Values[name] = c.Cell.Get(name)
	}
	start := time.Now()
	var spoiled []string
	for r.Tries = 1; ; r.Tries++ {
		r.Dir = filepath.Join(dir, strings.ReplaceAll(r.ID, "/", "-"))
		o, err := attempt(ctx, l, c, &r)
		if err != nil {
			return r, err
		}
		r.Verdict, r.Note, r.Measured = o.Verdict, o.Note, o.Measured
		tries := c.Tries
		if o.Spoiled {
			tries = max(tries, spoiledTries)
		}
		if o.Verdict != Fail && !o.Spoiled || r.Tries >= tries {
			break
		}
		spoiled = append(spoiled, strings.Trim(o.Note+"; "+o.Measured, "; "))
	}
	r.Seconds = time.Since(start).Seconds()
	if r.Verdict != Fail {
		if len(spoiled) > 0 {
			r.Measured = strings.TrimPrefix(fmt.Sprintf("%s; try %d, before: %s", r.Measured, r.Tries, strings.Join(spoiled, "; ")), "; ")
		}
		if !keep {
			dir, r.Dir = r.Dir, ""
			return r, os.RemoveAll(dir)
		}
	}
	return r, l.Save()
}

// attempt runs a case once. An error is one of the lab, not of the case.
func attempt(ctx context.Context, l *lab.Lab, c Case, r *Result) (Outcome, error) {
	if err := l.SetMTU(ctx, c.Cell); err != nil {
		return Outcome{}, err
	}
	if err := l.Begin(ctx, r.Dir); err != nil {
		return Outcome{}, err
	}
	limit := c.Limit
	if limit == 0 {
		limit = defaultLimit
	}
	inTime, cancel := context.WithTimeout(ctx, limit)
	o := c.Run(inTime, l, c.Cell)
	cancel()
	if ctx.Err() != nil {
		return o, ctx.Err()
	}
	if !l.Machine().Alive() {
		log := l.Machine().Log()
		if err := l.PowerOn(ctx); err != nil {
			return o, err
		}
		return Failed("the guest ended: %s", log), nil
	}
	t, err := l.Traffic(ctx)
	if err != nil {
		return o, err
	}
	r.Sent, r.Got, r.Taken = t.Out, t.In, t.Taken()
	l.Log("traffic: %+v", *t)
	err = judge(t, c.Loose)
	r.Accepted, r.Late, r.Exact, r.Messages, r.Verified = 0, 0, false, 0, 0
	if fs, seen := l.Frames(ctx); seen == nil && len(fs) == t.Out+t.In+t.BadIn+t.BadOut {
		a := newAcceptance(t, fs)
		r.Accepted, r.Late, r.Exact, r.Messages = a.accepted, a.late, exact(t, c.Loose), frames.Messages(fs)
		if c.verified() {
			r.Verified = r.Messages
		}
		err = errors.Join(err, rules(fs, c.Loose), a.check(t, c.Loose, c.refusal()))
	}
	guests, lost := undelivered(t, c.Loose)
	if o.Verdict != Fail && (err != nil || lost != nil) {
		o = Failed("%v", errors.Join(err, lost))
		o.Spoiled = err == nil && guests
		return o, nil
	}
	if o.Verdict == Fail {
		if fs, seen := l.Frames(ctx); seen == nil {
			o = starved(o, fs)
		}
	}
	return o, nil
}

// retryTime is a little less than the time of most programs' retries, which are
// eight of 67 ms.
const retryTime = 450 * time.Millisecond

// starved is the outcome of a case that failed. A guest without CPU time loses
// connections because it is silent; the wire shows that it answers in the end.
func starved(o Outcome, fs []frames.Frame) Outcome {
	if d := frames.Silence(fs); d > retryTime && !o.Spoiled {
		o.Spoiled = true
		o.Measured = strings.TrimPrefix(fmt.Sprintf("%s; the guest was silent for %v and then answered", o.Measured, d.Round(time.Millisecond)), "; ")
	}
	return o
}

// rules checks the protocol of our packets on the wire.
func rules(fs []frames.Frame, loose Loose) error {
	if loose&Hostile != 0 {
		return nil
	}
	lines := frames.Answers(fs)
	if n := frames.Unconfirmed(fs); n > 0 && loose == 0 {
		lines = append(lines, fmt.Sprintf("%d connections that the peer accepted got no RTU, or none before it asked again", n))
	}
	if len(lines) == 0 {
		return nil
	}
	return errors.New(strings.Join(lines, "; "))
}

// sentTwice is our counter of retransmitted packets, which may arrive after the end of
// a queue pair, as may their answers.
const sentTwice = "retrans_pkts"

// judge makes the traffic checks that apply to every case.
func judge(t *lab.Traffic, loose Loose) error {
	var errs []error
	if t.Missed > 0 {
		errs = append(errs, fmt.Errorf("%d frames passed faster than they could be read", t.Missed))
	}
	if t.BadIn > 0 || t.BadOut > 0 && loose&(Hostile|Damaging) == 0 {
		text := fmt.Sprintf("%d frames of ours and %d of the peer's are wrong", t.BadOut, t.BadIn)
		for i := range t.First {
			text += "; " + t.First[i].String()
		}
		errs = append(errs, errors.New(text))
	}
	if t.Reset || loose&(Hostile|Within) != 0 {
		return errors.Join(errs...)
	}
	// A packet that we retransmitted, because the peer was slow to answer, may
	// find its queue pair ended.
	taken, twice := t.Taken(), t.Own.Counters[sentTwice]
	if taken > int64(t.Out) || loose&Gone == 0 && taken < int64(t.Out)-twice {
		errs = append(errs, fmt.Errorf("the peer's kernel took %d packets of the %d that we sent", taken, t.Out))
	}
	return errors.Join(errs...)
}

// undelivered compares the packets that the peer's kernel counted as sent with the
// wire. Missing packets never left the guest; guests then says that the fault is the
// guest's: without CPU time for long it may lose a packet.
func undelivered(t *lab.Traffic, loose Loose) (guests bool, err error) {
	sent, came := t.Arrived()
	if sent == came || t.Reset || loose&(Hostile|Within) != 0 {
		return false, nil
	}
	return sent > came && t.Missed == 0, fmt.Errorf("the peer's kernel sent %d packets, of which %d came", sent, came)
}
