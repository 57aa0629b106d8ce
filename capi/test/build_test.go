//go:build linux && cgo

package test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// build builds the library and the scenarios beside an engine, with more flags
// for the C compiler, and returns the program.
func build(t *testing.T, dir string, flags ...string) (program string) {
	t.Helper()
	program = filepath.Join(dir, "program")
	common := append([]string{"-std=gnu11", "-O1", "-g", "-fPIC", "-pthread", "-Wall", "-Wextra", "-Werror"}, flags...)
	library := append(append(common, "-shared", "-fvisibility=hidden", "-Wl,-soname,libibverbs.so.1", "-Wl,-z,nodelete,-z,defs",
		"-Wl,--version-script=../libibverbs/libibverbs.map", "-o", filepath.Join(dir, "libibverbs.so.1")), sources(t, "../libibverbs")...)
	run(t, "gcc", append(library, "-ldl")...)
	run(t, "gcc", append(append(common, "-o", program), append(sources(t, "program"), "-L"+dir, "-l:libibverbs.so.1")...)...)
	return program
}

// buildEngine builds the engine into a directory, which it returns. It skips the
// test on a machine where programs for libibverbs cannot be built.
func buildEngine(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no C compiler: install gcc") // nothing in C can be tried
	}
	probe := exec.Command("gcc", "-E", "-x", "c", "-o", "/dev/null", "-")
	probe.Stdin = strings.NewReader("#include <infiniband/verbs.h>\n")
	if probe.Run() != nil {
		// The library is compiled against them.
		t.Skip("no headers of libibverbs: install libibverbs-dev (Debian, Ubuntu) or rdma-core-devel (Fedora)")
	}
	dir := t.TempDir()
	run(t, "go", "build", "-buildmode=c-shared", "-o", filepath.Join(dir, "softhca-engine.so"), "../engine")
	return dir
}

// sources returns the C files of a directory.
func sources(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.c"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no sources in %s: %v", dir, err)
	}
	return files
}

func run(t *testing.T, tool string, args ...string) {
	t.Helper()
	if out, err := exec.Command(tool, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", tool, strings.Join(args, " "), err, out)
	}
}
