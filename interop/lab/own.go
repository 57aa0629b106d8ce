//go:build linux

package lab

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/softhca/softhca/interop/frames"
)

// Own is what our adapters counted in a case.
type Own struct {
	Counters Counters      // sums of the adapters that told them
	Lives    []frames.Life // of those adapters, in the order of their ends
	Faulty   int64         // how often rules of faults acted on what may have arrived
	Silent   int           // adapters that told nothing: they were killed, or still run
}

func newOwn() *Own { return &Own{Counters: Counters{}} }

// opened and told are how our command's log begins when an adapter is open, and
// when it is about to be closed.
const (
	opened = `msg="adapter open"`
	told   = "msg=counters "
)

// acted is what our command says of a rule of faults.
var acted = regexp.MustCompile(`(?m)^fault "(.*)" acted ([0-9]+) times?$`)

// Told is what an adapter of ours told just before it was closed.
type Told struct {
	Opened, At time.Time
	Counters   Counters
	Faulty     int64 // how often rules of faults acted on what may have arrived
}

// add adds what an adapter told that ended when so many frames had passed.
func (o *Own) add(t Told, passed int) {
	for name, v := range t.Counters {
		o.Counters[name] += v
	}
	o.Faulty += t.Faulty
	o.Lives = append(o.Lives, frames.Life{Opened: t.Opened, Told: t.At, Passed: passed})
}

// clone returns a copy that does not change any more.
func (o *Own) clone() Own {
	c := Own{Counters: Counters{}, Faulty: o.Faulty, Silent: o.Silent, Lives: slices.Clone(o.Lives)}
	for name, v := range o.Counters {
		c.Counters[name] = v
	}
	return c
}

// OwnCounters returns what those adapters of ours counted in this case that have
// told it.
func (l *Lab) OwnCounters() Counters {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.own.clone().Counters
}

// Arriving reports whether a rule of faults may act on what arrives.
func Arriving(rule string) bool { return !strings.Contains(rule, "dir=out") }

// parseTold returns what a command of ours said about its adapter: no counters
// if it opened none. ok is false if it opened one and did not say.
func parseTold(stderr string) (t Told, ok bool) {
	var opening, telling error
	for line := range strings.Lines(stderr) {
		if strings.Contains(line, opened) {
			t.Opened, opening = logged(line)
			telling = errSilent
		}
		if _, list, found := strings.Cut(line, told); found {
			t.At, telling = logged(line)
			if telling == nil {
				t.Counters, telling = parseCounters(strings.ReplaceAll(strings.Join(strings.Fields(list), "\n"), "=", " "))
			}
		}
	}
	for _, m := range acted.FindAllStringSubmatch(stderr, -1) {
		if n, err := strconv.ParseInt(m[2], 10, 64); err == nil && Arriving(m[1]) {
			t.Faulty += n
		}
	}
	return t, opening == nil && telling == nil
}

// errSilent says that an adapter has told no counters yet.
var errSilent = errors.New("no counters")

// logged returns the time of a line of our command's log.
func logged(line string) (time.Time, error) {
	at, _, _ := strings.Cut(strings.TrimPrefix(line, "time="), " ")
	return time.Parse(time.RFC3339Nano, at)
}

// withoutLog returns what a command of ours printed beside its log.
func withoutLog(stderr string) string {
	var b strings.Builder
	for line := range strings.Lines(stderr) {
		if !strings.Contains(line, opened) && !strings.Contains(line, told) && !strings.HasPrefix(line, mark) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// Counted notes what an adapter in this process told before it was closed.
func (l *Lab) Counted(ctx context.Context, t Told) error {
	l.mu.Lock()
	own := l.own
	l.mu.Unlock()
	return l.count(ctx, own, t)
}

// count adds what an adapter told to a case's, behind all frames that passed
// until now.
func (l *Lab) count(ctx context.Context, own *Own, t Told) error {
	if err := l.tap.Sync(ctx); err != nil {
		return err
	}
	passed := len(l.tap.Frames())
	l.mu.Lock()
	defer l.mu.Unlock()
	own.add(t, passed)
	return nil
}

// syncLimit bounds the wait for our own mark on the wire.
const syncLimit = 10 * time.Second

// ended notes in a case's counters what a command of ours told until it ended; ok
// is false if it did not tell. That may have been the end of its context.
func (l *Lab) ended(ctx context.Context, own *Own, t Told, ok bool) {
	if ok && t.Counters != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), syncLimit)
		defer cancel()
		ok = l.count(ctx, own, t) == nil
	}
	if ok {
		l.mu.Lock()
		own.Silent--
		l.mu.Unlock()
	}
}
