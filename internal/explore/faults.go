package explore

import (
	"fmt"
	"strings"

	"github.com/softhca/softhca/internal/fault"
	"github.com/softhca/softhca/internal/fault/sites"
)

// The kinds of faults.
const (
	KindCall = "call" // a call of a verb returns an error
	KindWC   = "wc"   // a work request completes with an error
)

// Kinds returns the kinds of faults.
func Kinds() []string { return []string{KindCall, KindWC} }

// Fault is one thing that goes wrong in one process.
type Fault struct {
	Process string `json:"process"` // the name of its program, a dot, and a number from 1 on
	Kind    string `json:"kind"`    // call or wc
	What    string `json:"what"`    // the verb, or the opcode of the work request
	Nth     uint64 `json:"nth"`     // which of these in the process, from 1 on
	Of      uint64 `json:"of"`      // how many of these, that can fail so, the process made in the first run
	Error   string `json:"error"`   // the error number, or the completion status
	Rule    string `json:"rule"`    // of --fault and --replay
}

// String says in words what goes wrong.
func (f *Fault) String() string {
	what := "call of " + f.What
	if f.Kind == KindWC {
		what = f.What
	}
	return fmt.Sprintf("%s: %s %d of %d fails with %s", f.Process, what, f.Nth, f.Of, f.Error)
}

// FaultOf returns the fault of a rule.
func FaultOf(r *fault.Rule) Fault {
	f := Fault{Process: r.Process(), Kind: KindCall, What: r.Call(), Error: r.ErrnoName(), Rule: r.String()}
	if r.Action.Layer() == fault.Requests {
		f.Kind, f.What, f.Error = KindWC, "", r.Status().String()
	}
	return f
}

// Selection says which faults are tried.
type Selection struct {
	Kinds []string // nil: all
	All   bool     // every call and request, not only the first, the middle and the last of its kind in its process
}

// maxFaults bounds the faults of a plan.
const maxFaults = 100_000

// Plan returns the faults that can befall the processes of a run. cut is how many more there are than a plan holds.
func Plan(processes []sites.Process, s Selection) (all []Fault, cut uint64) {
	add := func(f Fault, count uint64, rule string) {
		f.Of = count
		some, total := s.which(count)
		cut += total - uint64(len(some))
		for i, n := range some {
			if len(all) == maxFaults {
				cut += uint64(len(some) - i)
				return
			}
			f.Nth, f.Rule = n, fmt.Sprintf("%s nth=%d op=%s process=%s", rule, n, f.What, f.Process)
			all = append(all, f)
		}
	}
	for _, p := range processes {
		for _, c := range p.Calls {
			for _, e := range errnosOf(c.What) {
				if s.has(KindCall) {
					add(Fault{Process: p.Name, Kind: KindCall, What: c.What, Error: e}, c.N, "fail errno="+e)
				}
			}
		}
		for _, c := range p.Requests {
			if s.has(KindWC) {
				add(Fault{Process: p.Name, Kind: KindWC, What: c.What, Error: c.Status.String()}, c.N, "wc "+c.Status.String())
			}
		}
	}
	return all, cut
}

// has reports whether faults of a kind are tried.
func (s *Selection) has(kind string) bool {
	for _, k := range s.Kinds {
		if k == kind {
			return true
		}
	}
	return len(s.Kinds) == 0
}

// which returns those of count things that are to fail: the first, the middle and the last, or all; and how many these are, of which it
// returns no more than a plan holds.
func (s *Selection) which(count uint64) (all []uint64, total uint64) {
	if s.All {
		for n := uint64(1); n <= min(count, maxFaults); n++ {
			all = append(all, n)
		}
		return all, count
	}
	for _, n := range []uint64{1, count/2 + 1, count} {
		if n <= count && (len(all) == 0 || n > all[len(all)-1]) {
			all = append(all, n)
		}
	}
	return all, uint64(len(all))
}

// errnosOf returns the errors that the manual page of a verb permits and programs may meet.
func errnosOf(call string) []string {
	switch {
	case call == "PostSend", call == "PostRecv", call == "PostSRQRecv":
		return []string{"ENOMEM"} // the queue is full
	case strings.HasPrefix(call, "Destroy"), strings.HasPrefix(call, "Dealloc"), strings.HasPrefix(call, "Dereg"), call == "CloseXRCDomain":
		return []string{"EBUSY"}
	case strings.HasPrefix(call, "Modify"), strings.HasPrefix(call, "Query"), call == "SetSRQLimit", call == "ReqNotify",
		call == "DetachMcast", call == "AdviseMR", call == "FreeDM":
		return []string{"EINVAL"}
	default:
		return []string{"ENOMEM"}
	}
}
