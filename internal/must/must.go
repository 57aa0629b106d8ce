package must

import "errors"

// T is a test, a benchmark, or a random test of rapid.
type T interface {
	Helper()                           // as in testing.TB
	Errorf(format string, args ...any) // as in testing.TB
	Fatal(args ...any)                 // as in testing.TB
}

// Do ends the test if err is not nil.
func Do(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Fail marks the test as failed, and lets it go on, unless err is target. what says what
// returned err.
func Fail(t T, err, target error, what string) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: error %v, want one that is %v", what, err, target)
	}
}
