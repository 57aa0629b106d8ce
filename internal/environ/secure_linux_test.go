package environ

import (
	"os"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// TestSecureIn looks for AT_SECURE in auxiliary vectors. Other tests show that a
// privileged program has it.
func TestSecureIn(t *testing.T) {
	for _, c := range []struct {
		vector [][2]uintptr
		want   bool
	}{
		{nil, false},
		{[][2]uintptr{{atSecure, 0}}, false},
		{[][2]uintptr{{atSecure, 1}}, true},
		{[][2]uintptr{{6, 4096}, {atSecure, 1}, {0, 0}}, true},
		{[][2]uintptr{{6, 1}, {0, 1}}, false},
	} {
		if got := secureIn(c.vector); got != c.want {
			t.Errorf("%v: privileged %t", c.vector, got)
		}
	}
}

// TestOrdinaryProcess checks that a process without privileges gets its environment
// unchanged.
func TestOrdinaryProcess(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("SOFTHCA_X", "y")
	t.Setenv("TMPDIR", dir)
	t.Setenv("XDG_CONFIG_HOME", dir)
	if Privileged() || Getenv("SOFTHCA_X") != "y" || TempDir() != dir || ConfigDir() != dir {
		t.Errorf("privileged %t, %q, %q, %q", Privileged(), Getenv("SOFTHCA_X"), TempDir(), ConfigDir())
	}
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("HOME", "") // restores it in the end
	must.Do(t, os.Unsetenv("HOME"))
	if got := ConfigDir(); got != "" {
		t.Errorf("a user without a home has the configuration directory %q", got)
	}
}
