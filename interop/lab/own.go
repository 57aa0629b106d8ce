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

// Own is the counters of our adapters in a case.
type Own struct {
	Counters Counters      // sums over the adapters that reported them
	Lives    []frames.Life // of those adapters, in the order of their ends
	Faulty   int64         // how often fault rules acted on packets that may have arrived
	Silent   int           // adapters without a report: they were killed, or still run
}

func newOwn() *Own { return &Own{Counters: Counters{}} }

// opened and told are how our command's log begins when an adapter is open, and
// when it is about to be closed.
const (
	opened = `msg="adapter open"`
	told   = "msg=counters "
)

// acted is what our command says of a rule of faults, or the library logs.
var acted = regexp.MustCompile(`(?m)^fault "(.*)" acted ([0-9]+) times?$|` + ruled + ` rule="(.*)" acted=([0-9]+)$`)

// ruled is how the library's log names rules of faults.
const ruled = `msg="fault rule"`

// Acted returns how often rules of faults acted, by what our command or the library says,
// and how often those did that may act on what arrives.
func Acted(stderr string) (all, arriving int64) {
	for _, m := range acted.FindAllStringSubmatch(stderr, -1) {
		n, err := strconv.ParseInt(m[2]+m[4], 10, 64)
		if err != nil {
			continue // more than 2^63: no count gets that far
		}
		all += n
		if Arriving(m[1] + m[3]) {
			arriving += n
		}
	}
	return all, arriving
}

// Told is the report of one of our adapters just before it was closed.
type Told struct {
	Opened, At time.Time
	Counters   Counters
	Faulty     int64 // how often fault rules acted on packets that may have arrived
}

// add adds the report of an adapter that ended after passed frames.
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

// OwnCounters returns the counters of our adapters that have reported in this
// case.
func (l *Lab) OwnCounters() Counters {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.own.clone().Counters
}

// Arriving reports whether a fault rule may act on arriving packets.
func Arriving(rule string) bool { return !strings.Contains(rule, "dir=out") }

// parseTold parses our command's report about its adapter: no counters if it
// opened none. ok is false if it opened one without a report.
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
	_, t.Faulty = Acted(stderr)
	return t, opening == nil && telling == nil
}

// errSilent says that an adapter has reported no counters yet.
var errSilent = errors.New("no counters")

// logged returns the time of a line of our command's log.
func logged(line string) (time.Time, error) {
	at, _, _ := strings.Cut(strings.TrimPrefix(line, "time="), " ")
	return time.Parse(time.RFC3339Nano, at)
}

// info matches a line of the log of our command or of the library.
var info = regexp.MustCompile(`^time=\S+ level=INFO `)

// withoutLog returns what a command or a program of ours printed in addition to its log, and
// what became of rules of faults.
func withoutLog(stderr string) string {
	var b strings.Builder
	for line := range strings.Lines(stderr) {
		if strings.Contains(line, ruled) || !info.MatchString(line) && !strings.HasPrefix(line, mark) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// Counted adds the report of an adapter in this process before it was closed.
func (l *Lab) Counted(ctx context.Context, t Told) error {
	l.mu.Lock()
	own := l.own
	l.mu.Unlock()
	return l.count(ctx, own, t)
}

// count adds an adapter's report to the case's, after all frames so far.
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

// ended adds our command's report to the case's counters; ok is false if there is
// none, which may be because its context ended.
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
