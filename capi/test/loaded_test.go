//go:build linux && cgo

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/softhca/softhca/internal/libraries"
	"github.com/softhca/softhca/internal/must"
)

// TestK1_LoadedLate runs a program that loads the library when its threads have used thread-local variables of libraries that are
// gone. If the checker used thread-local variables of its own while memory is freed, the program would crash.
func TestK1_LoadedLate(t *testing.T) {
	b := newBuilds(t, "program", plain)
	if *buildsDir == "" {
		b.buildChecked(t, plain) // and the library that reports freed memory
	}
	dir := t.TempDir()
	source, program := filepath.Join(dir, "variable.c"), filepath.Join(dir, "loaded")
	must.Do(t, os.WriteFile(source, []byte("__thread int v[100]; int *variable(void) { return v; }\n"), 0o600))
	run(t, "gcc", append(append(plain.compiler(), "-o", program), append(sources(t, "loaded"), "-ldl")...)...)
	line := []string{program}
	for i := range 40 {
		library := filepath.Join(dir, fmt.Sprintf("%d.so", i))
		if i == 0 {
			run(t, "gcc", "-shared", "-fPIC", "-o", library, source)
		} else {
			text, err := os.ReadFile(line[1])
			must.Do(t, err)
			must.Do(t, os.WriteFile(library, text, 0o600))
		}
		line = append(line, library)
	}
	s := &stand{builds: b, variant: plain}
	out, err := s.runLine(t, line, "SOFTHCA_CHECK=error", "SOFTHCA_CHECK_DIR="+t.TempDir(),
		"LD_PRELOAD="+filepath.Join(s.dir, s.variant.name, libraries.Memory)+":"+filepath.Join(s.dir, libraries.Preload))
	if err != nil || out != "ok\n" {
		t.Errorf("%v\n%s", err, out)
	}
}
