package verbs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/environ/setid"
	"github.com/softhca/softhca/verbs"
)

// privilegedEnv in the environment makes the test binary open an adapter.
const privilegedEnv = "SOFTHCA_TEST_PRIVILEGED"

// TestHelperPrivileged is the privileged program: it opens an adapter and prints its GUID.
func TestHelperPrivileged(t *testing.T) {
	if os.Getenv(privilegedEnv) == "" {
		t.Skip("it is the program of TestPrivilegedProgram") // not a test by itself
	}
	c, err := verbs.Open(verbs.Config{Addr: "10.0.0.1", Network: verbs.NewNetwork()})
	if err != nil {
		t.Fatal(err)
	}
	attr, err := c.QueryDevice()
	fmt.Printf("euid %d guid %v\n", os.Geteuid(), attr.NodeGUID)
	if err = errors.Join(err, c.Close()); err != nil {
		t.Error(err)
	}
}

// TestPrivilegedProgram attacks a set-user-ID program in Go, and others with more rights than
// their user, with the variables that package verbs reads.
func TestPrivilegedProgram(t *testing.T) {
	dir := setid.Dir(t)
	secret, home := filepath.Join(dir, "secret"), filepath.Join(dir, "attempt", "home")
	self, err := os.ReadFile("/proc/self/exe")
	if err = errors.Join(err, os.WriteFile(secret, []byte("drop the-first-line\n"), 0o600), os.Mkdir(filepath.Dir(home), 0o755), os.Chmod(filepath.Dir(home), 0o777)); err != nil {
		t.Fatal(err)
	}
	run := func(program string) (string, error) {
		cmd := setid.AsStranger(exec.Command(program, "-test.run=^TestHelperPrivileged$"))
		cmd.Env = []string{privilegedEnv + "=1", "SOFTHCA_FAULTS=@" + secret, "SOFTHCA_FAULTS_SEED=none", "SOFTHCA_GUID=none", "SOFTHCA_NASTY=none", "HOME=" + home, "XDG_CONFIG_HOME=" + home}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, kind := range append([]setid.Kind{""}, setid.Kinds()...) {
		program := filepath.Join(dir, "program-"+strings.ReplaceAll(string(kind), " ", "-"))
		if err := os.WriteFile(program, self, 0o755); err != nil {
			t.Fatal(err)
		}
		if kind == "" { // the variables do harm where they may
			if out, err := run(program); err == nil {
				t.Fatalf("the attack does not work on a program without rights:\n%s", out)
			}
			continue
		}
		setid.Grant(t, kind, program)
		out, err := run(program)
		if err != nil || !strings.Contains(out, "guid 02") || strings.Contains(out, "first-line") {
			t.Errorf("%s: %v, want an adapter and nothing of root's file:\n%s", kind, err, out)
		}
		if _, err := os.Lstat(home); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s has written below the attacker's HOME (%v)", kind, err)
		}
	}
}
