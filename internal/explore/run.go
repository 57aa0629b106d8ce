package explore

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/softhca/softhca/internal/check"
	"github.com/softhca/softhca/internal/explore/stacks"
	"github.com/softhca/softhca/internal/fault/sites"
)

// Program is what to explore.
type Program struct {
	Softhca string   // path of the command softhca, whose run starts the program
	Args    []string // the program and its arguments
	Env     []string // as os.Environ returns it
	Oracle  string   // a command of the shell that says with exit code 0 that a run that ended well was right; "": none is asked
	Jobs    int      // runs at the same time, each in a network of its own; 0 or 1: one, in the network of this process
}

// The variables that the adapters of a run read.
const (
	faultsEnv   = "SOFTHCA_FAULTS"
	sitesEnv    = "SOFTHCA_SITES"
	checkEnv    = "SOFTHCA_CHECK"
	checkDirEnv = "SOFTHCA_CHECK_DIR"
	speedupEnv  = "SOFTHCA_RETRY_SPEEDUP"
)

// Environment returns the variables that make the adapters of a process have the fault.
func (f *Fault) Environment() map[string]string {
	env := map[string]string{faultsEnv: f.Rule}
	if !f.steady {
		env[speedupEnv] = strconv.Itoa(speedup)
	}
	return env
}

// Run is what became of one run of a program.
type Run struct {
	Code      int              // exit code; 128 plus the number of the signal that ended it
	TimedOut  bool             // its time was up, and its processes were killed
	Running   []string         // when its time was up: the names of its processes that had no children
	Stacks    []stacks.Process // when its time was up: where the threads of its processes were
	Duration  time.Duration    // from its start to its end
	Output    string           // the end of what it wrote
	Denied    string           // what the oracle said about a run that ended well, if it said no
	Acted     uint64           // how often the rule acted
	Breaches  []Breach         // the rules of the verbs that it broke
	Processes []sites.Process
}

// Breach is a rule of the verbs that a program broke: a finding of softhca run --check.
type Breach struct {
	Name string `json:"name"` // as in docs/checks.md
	Text string `json:"text"`

	key string // equal for the same breach in two runs
}

// maxOutput bounds the output of a run that is kept, in bytes.
const maxOutput = 16 << 10

// tail keeps the end of what is written to it.
type tail struct{ kept []byte }

// Write keeps the last bytes.
func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if n := len(t.kept) - maxOutput; n > 0 {
		t.kept = append(t.kept[:0], t.kept[n:]...)
	}
	return len(p), nil
}

// read reads what the processes of the run have recorded in its directories.
func (r *Run) read(counted, checked string) error {
	var err error
	if r.Processes, err = sites.Read(counted); err != nil {
		return err
	}
	for _, p := range r.Processes {
		r.Acted += p.Acted
	}
	report, err := check.Read(checked, check.Options{})
	if err != nil {
		return err
	}
	for _, f := range report.Findings {
		r.Breaches = append(r.Breaches, Breach{Name: f.Name, Text: f.Text, key: keyOf(f)})
	}
	return nil
}

// keyOf returns a text that findings of two runs share if they are of the same place in the program.
func keyOf(f *check.Finding) string {
	var b strings.Builder
	b.WriteString(f.Name)
	if len(f.Stacks) > 0 {
		for _, frame := range f.Stacks[0].Frames {
			fmt.Fprintf(&b, "\n%s %s %s:%d", frame.Library, frame.Address, frame.File, frame.Line)
		}
	}
	return b.String()
}
