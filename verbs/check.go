package verbs

import (
	"github.com/softhca/softhca/internal/check/live"
)

// Finding is a bug of the program that the checker of an adapter has found; see WithCheck. docs/checks.md
// explains every finding.
type Finding struct {
	Name   string        // such as "send-buffer-changed"
	Advice bool          // legal use that is rarely wanted; not an error
	Text   string        // one sentence with the facts
	Calls  []FindingCall // the calls that matter, the most important one first
}

// FindingCall is a call of the program that a finding is about.
type FindingCall struct {
	Title string         // such as "posted here"
	Stack []FindingFrame // innermost first, without the functions of this library
}

// FindingFrame is a function in a stack of calls.
type FindingFrame struct {
	Function string // with its package
	File     string
	Line     int
}

// String returns the finding on several lines: the facts, the stacks of the calls, the rule and the fix.
func (f *Finding) String() string {
	if f == nil {
		return ""
	}
	l := live.Finding{Name: f.Name, Advice: f.Advice, Text: f.Text, Calls: make([]live.Call, len(f.Calls))}
	for i, c := range f.Calls {
		l.Calls[i].Title = c.Title
		for _, frame := range c.Stack {
			l.Calls[i].Stack = append(l.Calls[i].Stack, live.Frame(frame))
		}
	}
	return l.String()
}

// checked gives package verbstest access to the sink of a configuration.
type checked = live.Door

// WithCheck returns an option for Open that looks for bugs in the program's use of the adapter: buffers that
// change while the adapter sends them, regions that are deregistered too early, wrong keys, queues that are too
// small on hardware. It calls report for each bug, once for each place in the program. Package verbstest makes
// a test fail instead.
//
// Use the same option for all adapters of a process: they then report each bug once. An adapter that is not
// checked may write to memory that another one sends. Without knowing what it writes, the checker does not
// report send-buffer-changed while the process has such an adapter.
//
// Queues of a checked adapter hold what those of hardware hold: a request takes an entry until the program has polled a
// completion that covers it. Posts to a full queue fail with an error that unwraps to ENOMEM. An adapter that is not
// checked also has room for new requests when it has finished earlier ones.
//
// "softhca run --check" checks all adapters of a program without this option.
//
// The goroutine whose call shows the bug calls report before the call returns, so several goroutines may call
// it at once. report may call the adapter. It must not use connections of package rdmacm or stream, whose own
// calls may be the ones that it interrupts.
func WithCheck(report func(*Finding)) Option {
	if report == nil {
		return func(*Config) {}
	}
	sink := live.NewSink(func(l *live.Finding) {
		f := &Finding{Name: l.Name, Advice: l.Advice, Text: l.Text, Calls: make([]FindingCall, len(l.Calls))}
		for i, c := range l.Calls {
			f.Calls[i].Title = c.Title
			for _, frame := range c.Stack {
				f.Calls[i].Stack = append(f.Calls[i].Stack, FindingFrame(frame))
			}
		}
		report(f)
	})
	return func(c *Config) { c.checked = live.DoorTo(sink) }
}

// chosen returns the attributes that the program may have chosen itself: there is no advice about the values of
// ConnectionAttr.
func chosen(a *QPAttr, mask AttrMask) AttrMask {
	c := ConnectionAttr()
	if a.PathMTU == c.PathMTU && a.Timeout == c.Timeout && a.RetryCnt == c.RetryCnt && a.RNRRetry == c.RNRRetry && a.MinRNRTimer == c.MinRNRTimer {
		mask &^= AttrPathMTU | AttrRNRRetry
	}
	return mask
}

// ended tells the checker the outcome of a call that destroys an object, and returns the error.
func ended(c *live.Checker, o *live.Object, err error) error {
	if c != nil {
		o.Destroyed(err, nil)
		c.Tell()
	}
	return err
}

// used tells the checker that a call that failed has used objects.
func used(c *live.Checker, err error, all ...*live.Object) {
	if c != nil && err != nil {
		c.Used(all...)
		c.Tell()
	}
}

// checks returns the checker of the adapter; nil for none.
func (c *Context) checks() *live.Checker {
	if c.dev() == nil {
		return nil
	}
	return c.dev().Check
}
