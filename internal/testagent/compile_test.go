package testagent_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/testagent"
)

// The program compiles without a warning from the source that we hand out, and from its files.
func TestTheProgramCompiles(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		// A host without a compiler: the runner of cases says what it needs.
		t.Skip("needs gcc")
	}
	if _, err := os.Stat("/usr/include/infiniband/verbs.h"); err != nil {
		// The same for the library.
		t.Skip("needs the headers of libibverbs")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "agent.c")
	must.Do(t, os.WriteFile(file, []byte(testagent.Source()), 0o600))
	files, err := filepath.Glob("agent/*.c")
	must.Do(t, err)
	for _, sources := range [][]string{{file}, files} {
		for _, with := range []string{"-UWITH_ATOMIC_WRITE", "-DWITH_ATOMIC_WRITE"} {
			args := append([]string{"-O2", "-Wall", "-Wextra", "-Werror", with, "-o", filepath.Join(dir, "agent")}, sources...)
			if out, err := exec.Command(gcc, append(args, "-libverbs")...).CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", with, err, out)
			}
		}
	}
}
