package verbstest

import (
	"testing"

	"github.com/softhca/softhca/internal/check/live"
	"github.com/softhca/softhca/internal/lock"
	"github.com/softhca/softhca/verbs"
)

// Check returns an option for verbs.Open that checks the test's use of the adapter, as verbs.WithCheck does. Each
// error fails the test, with the stacks of the calls and the rule. Advice is only logged. When the test ends,
// Check also looks for adapters that the test has not closed: what is left in them is an error, too. Use one
// option for all adapters of a test.
//
//	check := verbstest.Check(t)
//	a, err := verbs.Open(verbs.Config{Network: n, Addr: "10.0.0.1"}, check)
//	b, err := verbs.Open(verbs.Config{Network: n, Addr: "10.0.0.2"}, check)
func Check(t testing.TB) verbs.Option {
	var (
		mu    lock.Mutex[lock.CheckTest] // guards ended, and keeps the test from its end while it is told
		ended bool
	)
	option := verbs.WithCheck(func(f *verbs.Finding) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case ended:
			// A test must not log after its end.
		case caused(f.Name):
		case f.Advice && f.Name != "objects-left-at-exit":
			t.Logf("%v", f)
		default:
			t.Errorf("%v", f)
		}
	})
	var c verbs.Config
	option(&c)
	t.Cleanup(func() {
		live.SinkOf(&c).Left()
		mu.Lock()
		defer mu.Unlock()
		ended = true
	})
	return option
}
