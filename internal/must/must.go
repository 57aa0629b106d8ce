package must

import "errors"

// T is what tests, benchmarks and the random tests of rapid have in common. Its methods are those
// of testing.TB.
type T interface {
	// Helper marks the caller as a function whose lines are not reported.
	Helper()
	// Errorf marks the test as failed.
	Errorf(format string, args ...any)
	// Fatal ends the test.
	Fatal(args ...any)
}

// Do ends the test if err is not nil.
func Do(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Fail reports a failure, without ending the test, unless err is or wraps target; a nil
// target requires a nil err. what names the operation that returned err.
func Fail(t T, err, target error, what string) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: error %v, want one that is %v", what, err, target)
	}
}
