package sandbox

import (
	"bytes"
	"errors"
	"os"
	"regexp"
	"syscall"
	"testing"

	"github.com/softhca/softhca/internal/namespace"
)

// marker is the environment variable that marks the child.
const marker = "SOFTHCA_TEST_SANDBOX"

// Enter runs the calling test once more, in a child process with its own
// network, with loopback up. In the child it returns true, and the test
// continues. In the parent it reports the child's result and returns false, and
// the test must return. It skips the test if the system does not allow
// namespaces.
func Enter(t *testing.T) bool {
	t.Helper()
	if os.Getenv(marker) != "" {
		if err := namespace.Up("lo"); err != nil {
			t.Fatal(err)
		}
		return true
	}
	args := []string{"-test.run=^" + regexp.QuoteMeta(t.Name()) + "$", "-test.count=1"}
	if testing.Verbose() {
		args = append(args, "-test.v")
	}
	cmd := namespace.Again(t.Context(), syscall.CLONE_NEWNET, args...)
	// The race detector reports races at once, so do not wait at exit.
	cmd.Env = append(os.Environ(), marker+"=1", "GORACE=atexit_sleep_ms=0")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := namespace.Run(cmd)
	if errors.Is(err, namespace.ErrForbidden) {
		// Without a user namespace the test lacks privileges.
		t.Skipf("no network namespace to test in: %v", err)
	}
	if err != nil {
		t.Fatalf("in the namespace: %v\n%s", err, out.Bytes())
	}
	if testing.Verbose() {
		t.Logf("in the namespace:\n%s", out.Bytes())
	}
	return false
}
