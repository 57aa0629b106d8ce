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

// Result is what became of a case.
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
	Taken    int64   `json:"taken"`    // of them the peer's kernel counted so many
	Got      int     `json:"received"` // packets that it sent, all with a right ICRC
	Accepted int64   `json:"accepted"` // of them our adapters counted so many
	Late     int64   `json:"late"`     // so many came when no adapter of ours was open, or none read any more
	Exact    bool    `json:"exact"`    // all packets that came are accounted for: no fault, nobody killed, no queue pair that ends early
	Messages int     `json:"messages"` // that were on the wire whole, both ways, each once
	Verified int     `json:"verified"` // of them met faults at our port, and their data was compared, if the case passed
	Dir      string  `json:"dir,omitempty"`
}

// spoiledTries is how often a case that the peer spoils is tried.
const spoiledTries = 3

// defaultLimit is the time that a case has if its family says nothing.
const defaultLimit = 2 * time.Minute

// Run runs a case in the lab, as often as its family allows. What a case that
// failed leaves behind is below dir; with keep also what the others do.
func Run(ctx context.Context, l *lab.Lab, c Case, dir string, keep bool) (Result, error) {
	r := Result{ID: c.ID(), Family: c.Name, Values: map[string]string{}}
	for _, name := range append([]string{"kernel"}, dimNames(c)...) {
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

func dimNames(c Case) (names []string) {
	for _, d := range c.Dims {
		names = append(names, d.Name)
	}
	return names
}

// attempt runs a case once. The error is one of the lab.
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
		r.Accepted, r.Late, r.Exact, r.Messages = a.accepted, a.nobody, exact(t, c.Loose), frames.Messages(fs)
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

// patience is how long the retries of most programs last, which are eight of 67
// ms, less a little.
const patience = 450 * time.Millisecond

// starved is the outcome of a case that failed. A guest that gets no processor
// loses connections by its silence; that it answers in the end shows on the wire.
func starved(o Outcome, fs []frames.Frame) Outcome {
	if d := frames.Silence(fs); d > patience && !o.Spoiled {
		o.Spoiled = true
		o.Measured = strings.TrimPrefix(fmt.Sprintf("%s; the guest was silent for %v and then answered", o.Measured, d.Round(time.Millisecond)), "; ")
	}
	return o
}

// rules holds what we sent to what the wire shows.
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

// sentTwice is our counter of packets that were sent again, and may so come behind the
// end of a queue pair, as may their answers.
const sentTwice = "retrans_pkts"

// judge holds the traffic of a case to what every case must do.
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
	// A packet that we sent twice, because the peer was slow to answer, may find a
	// queue pair that has ended.
	taken, twice := t.Taken(), t.Own.Counters[sentTwice]
	if taken > int64(t.Out) || loose&Gone == 0 && taken < int64(t.Out)-twice {
		errs = append(errs, fmt.Errorf("the peer's kernel took %d packets of the %d that we sent", taken, t.Out))
	}
	return errors.Join(errs...)
}

// undelivered holds what the peer's kernel says that it sent to what was on the wire.
// What is missing there has never left the guest, so guests says that the fault is
// its own: a guest that gets no processor for long may lose a packet.
func undelivered(t *lab.Traffic, loose Loose) (guests bool, err error) {
	sent, came := t.Arrived()
	if sent == came || t.Reset || loose&(Hostile|Within) != 0 {
		return false, nil
	}
	return sent > came && t.Missed == 0, fmt.Errorf("the peer's kernel sent %d packets, of which %d came", sent, came)
}
