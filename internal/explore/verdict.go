package explore

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/softhca/softhca/ib"
)

// Verdict is how a program ended under a fault.
type Verdict string

// The verdicts. The last four are findings.
const (
	Unreached Verdict = "unreached" // the fault did not happen: the run differed from the first one
	Absorbed  Verdict = "absorbed"  // the program ended well
	Reported  Verdict = "reported"  // the program ended with an error
	Broke     Verdict = "broke"     // the program broke a rule of the verbs that it did not break in the first run
	Lost      Verdict = "lost"      // the program ended well, and never polled an error completion, or the oracle said no
	Hung      Verdict = "hung"      // the program did not end in its time
	Crashed   Verdict = "crashed"   // a signal or a sanitizer ended a process
)

// Verdicts returns the verdicts, the worst first.
func Verdicts() []Verdict {
	return []Verdict{Crashed, Hung, Lost, Broke, Reported, Absorbed, Unreached}
}

// Finding reports whether the verdict is a bug of the program.
func (v Verdict) Finding() bool { return v == Crashed || v == Hung || v == Lost || v == Broke }

// Text says what a verdict means.
func (v Verdict) Text() string {
	switch v {
	case Unreached:
		return "the fault did not happen, as the run differed from the first one"
	case Absorbed:
		return "the program ended well"
	case Reported:
		return "the program ended with an error"
	case Broke:
		return "the program broke a rule of the verbs that it did not break in the first run"
	case Lost:
		return "the program ended well, and never polled an error completion, or the oracle said no"
	case Hung:
		return "the program did not end in its time"
	case Crashed:
		return "a signal or a sanitizer ended a process"
	}
	return "unknown"
}

// errorNeverPolled is the finding of a program that has missed an error completion.
const errorNeverPolled = "error-never-polled"

// judge returns the verdict about a run, and why. first is the run without a fault.
func judge(f *Fault, r, first *Run) (Verdict, string) {
	broken := r.newBreaches(first, f)
	switch crash := r.crash(first); {
	case r.Acted == 0:
		return Unreached, ""
	case crash != "":
		return Crashed, crash
	case r.TimedOut:
		return Hung, fmt.Sprintf("stopped after %v; still running: %s", r.Duration.Round(100*time.Millisecond), strings.Join(r.Running, ", "))
	case r.Denied != "":
		return Lost, "the oracle said no: " + r.Denied
	case len(broken) > 0:
		b := broken[0]
		for _, c := range broken {
			if c.Name == errorNeverPolled && r.Code == 0 {
				return Lost, c.Text
			}
		}
		return Broke, b.Name + ": " + b.Text
	case r.Code == 0:
		return Absorbed, ""
	}
	return Reported, fmt.Sprintf("exit code %d", r.Code)
}

// Causes returns the names of the findings that the fault itself causes, whatever the program does.
func (f *Fault) Causes() []string {
	switch {
	case f.Kind == KindWC:
		return []string{"remote-access-error", "remote-request-invalid", "local-operation-error", "peer-access-refused"}
	case f.Error == "EBUSY":
		return []string{"destroy-refused", "objects-left-at-close"}
	case f.Kind == KindEvent && f.Error == ib.EventDeviceFatal.String(): // objects and requests remain, and nothing reports their end
		return []string{"destroy-refused", "objects-left-at-close", "memory-freed", "send-buffer-changed"}
	case f.Kind == KindEvent && f.Error == ib.EventCQErr.String():
		return []string{"cq-overrun"}
	}
	return nil
}

// newBreaches returns the rules that the run under a fault broke, and the first run did not.
func (r *Run) newBreaches(first *Run, f *Fault) (all []Breach) {
	for _, b := range r.Breaches {
		if !slices.Contains(f.Causes(), b.Name) && !slices.ContainsFunc(first.Breaches, func(c Breach) bool { return c.key == b.key }) {
			all = append(all, b)
		}
	}
	return all
}

// crashSignals are Linux's signals of processes that crash.
var crashSignals = map[int]string{4: "illegal instruction", 5: "trace/breakpoint trap", 6: "aborted", 7: "bus error", 8: "floating point exception", 11: "segmentation fault", 31: "bad system call"}

// signalCode is added to the number of a signal in the exit codes of shells.
const signalCode = 128

// crashes matches what sanitizers, shells and the runtime of Go print about a process that crashed.
var crashes = regexp.MustCompile(`ERROR: AddressSanitizer|WARNING: ThreadSanitizer|:\d+:\d+: runtime error: |\ngoroutine \d+ \[` +
	`|\b(?:Segmentation fault|Bus error|Illegal instruction|Floating point exception)\b|(?m:(?:^|\d )(Aborted)(?:$| {2,}))`)

// crashText returns what an output says about a process that crashed; "" if it says nothing.
func crashText(output string) string {
	m := crashes.FindStringSubmatch(output)
	switch {
	case m == nil:
		return ""
	case m[1] != "":
		return m[1]
	}
	return m[0]
}

// crash returns how a process of the run crashed; "" if none did. The program may be a script, which ends with the code
// of the crash, or only prints it.
func (r *Run) crash(first *Run) string {
	if r.TimedOut {
		return "" // its processes were killed
	}
	if name, is := crashSignals[r.Code-signalCode]; is {
		return fmt.Sprintf("signal %d (%s)", r.Code-signalCode, name)
	}
	if text := crashText(r.Output); text != "" && crashText(first.Output) == "" {
		return fmt.Sprintf("its output has %q", text)
	}
	return ""
}
