//go:build linux

package main

import (
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// The dependents include a package that only recommends the library, which apt-cache marks,
// but neither headers nor emulators of other processors.
func TestDependents(t *testing.T) {
	const printed = "libibverbs1\nReverse Depends:\n  perftest\n |libucx0\n  libibverbs-dev\n  qemu-system-ppc\n  qemu-system-x86\n"
	var names []string
	for _, m := range dependent.FindAllStringSubmatch(printed, -1) {
		if !passed.MatchString(m[1]) {
			names = append(names, m[1])
		}
	}
	if want := []string{"perftest", "libucx0", "qemu-system-x86"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

// Each symbol is recorded once for each package, with its version.
func TestText(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no C compiler: install gcc") // the test compiles its libraries
	}
	dir := t.TempDir()
	sources := map[string]string{
		"map": "IBVERBS_1.1 { global: ibv_a; }; IBVERBS_PRIVATE_99 { global: ibv_b; } IBVERBS_1.1;",
		"l.c": "void ibv_a(void) {} void ibv_b(void) {}",
		"p.c": "void ibv_a(void), ibv_b(void); void f(void) { ibv_a(); ibv_b(); }",
	}
	for name, text := range sources {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	const library, program = soname + ".1.44.0", "program.so"
	for _, args := range [][]string{
		{"-o", library, "l.c", "-Wl,--version-script=map", "-Wl,-soname," + soname},
		{"-o", program, "p.c", "./" + library},
	} {
		cmd := exec.Command(gcc, append([]string{"-shared", "-fPIC"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("gcc: %v\n%s", err, out)
		}
	}
	f := facts{exports: map[string]bool{}, imports: map[string][]string{}}
	for _, file := range []struct{ pkg, name string }{{"libibverbs1", library}, {"tool", program}, {"tool", program}, {"other", program}} {
		e, err := elf.Open(filepath.Join(dir, file.name))
		must.Do(t, err)
		must.Do(t, errors.Join(f.addFile(file.pkg, file.name, e), e.Close()))
	}
	_, got, _ := strings.Cut(f.text("sid", map[string]string{"libibverbs1": "1", "tool": "2", "other": "3"}), "package ")
	const want = "libibverbs1 1\npackage other 3\npackage tool 2\nexport IBVERBS_1.1 ibv_a\nexport IBVERBS_PRIVATE_99 ibv_b\n" +
		"import IBVERBS_1.1 ibv_a: tool other\nimport IBVERBS_PRIVATE_99 ibv_b: tool other\n"
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
