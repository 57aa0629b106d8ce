package symbols

import (
	"debug/elf"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

const source = `#include <stdlib.h>
static inline __attribute__((always_inline)) int inner(int n)
{
	return atoi(getenv("X")) + n;
}
int outer(int n)
{
	return inner(n) * 3;
}
int main(int argc, char **argv)
{
	(void)argv;
	return outer(argc);
}
`

// compile compiles a program and returns its path. It skips the test where there is no compiler.
func compile(t *testing.T, compiler, file, text string, options ...string) string {
	t.Helper()
	if _, err := exec.LookPath(compiler); err != nil {
		t.Skip(err) // no compiler is installed
	}
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
	program(t, dir, compiler, append(options, "-o", "prog", file)...)
	return filepath.Join(dir, "prog")
}

// program runs a program in a directory.
func program(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

// symbol returns the address and the size of a function.
func symbol(t *testing.T, file, name string) (addr, size uint64) {
	t.Helper()
	f, err := elf.Open(file)
	must.Do(t, err)
	defer f.Close()
	all, err := f.Symbols()
	must.Do(t, err)
	for _, s := range all {
		if s.Name == name {
			return s.Value, s.Size
		}
	}
	t.Fatalf("%s has no %s", file, name)
	return 0, 0
}

// show returns frames as text.
func show(frames []Frame) string {
	var all []string
	for _, f := range frames {
		s := f.Function
		if f.File != "" {
			s += fmt.Sprintf(" %s:%d", filepath.Base(f.File), f.Line)
		} else {
			s += fmt.Sprintf("+%d", f.Offset)
		}
		all = append(all, s)
	}
	return strings.Join(all, ", ")
}

// shown returns all that a function's addresses are.
func shown(table *Table, file string, addr, size uint64) (all []string) {
	for a := addr; a < addr+size; a++ {
		if s := show(table.Lookup(file, a)); !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// TestDebugInformation finds lines, also of a function that is inlined, in the program itself,
// and in a debug file.
func TestDebugInformation(t *testing.T) {
	prog := compile(t, "gcc", "p.c", source, "-g", "-O1", "-fno-inline-functions-called-once", "-Wl,--build-id")
	addr, size := symbol(t, prog, "outer")
	want := "inner p.c:4, outer p.c:8"
	if got := shown(New("/nowhere", MaxDebug), prog, addr, size); !slices.Contains(got, want) || !slices.Contains(got, "outer p.c:8") && !slices.Contains(got, "outer p.c:7") {
		t.Errorf("outer is %q", got)
	}
	if got := show(New("/nowhere", 64).Lookup(prog, addr)); got != "outer+0" {
		t.Errorf("with debug information beyond the limit, the program has %q", got)
	}
	if _, err := exec.LookPath("objcopy"); err != nil {
		t.Skip(err) // no binutils are installed
	}
	f, err := open(prog)
	must.Do(t, err)
	id := hex.EncodeToString(buildID(f))
	f.Close()
	dir := t.TempDir()
	debug := filepath.Join(dir, ".build-id", id[:2], id[2:]+".debug")
	must.Do(t, os.MkdirAll(filepath.Dir(debug), 0o755))
	program(t, dir, "objcopy", "--only-keep-debug", prog, debug)
	program(t, dir, "strip", prog)
	if got := shown(New(dir, MaxDebug), prog, addr, size); !slices.Contains(got, want) {
		t.Errorf("with a debug file, outer is %q", got)
	}
	if got := show(New("/nowhere", MaxDebug).Lookup(prog, addr)); got != "" {
		t.Errorf("a stripped program has %q", got)
	}
}

// TestSymbols finds functions without debug information.
func TestSymbols(t *testing.T) {
	prog := compile(t, "gcc", "p.c", source)
	addr, size := symbol(t, prog, "outer")
	table := New("/nowhere", MaxDebug)
	if got := show(table.Lookup(prog, addr+2)); got != "outer+2" {
		t.Errorf("outer+2 is %q", got)
	}
	if got := show(table.Lookup(prog, addr+size)); strings.HasPrefix(got, "outer") {
		t.Errorf("the byte after outer is %q", got)
	}
	for _, a := range []uint64{0, 1, 1 << 63, ^uint64(0)} {
		if got := table.Lookup(prog, a); got != nil {
			t.Errorf("%#x is %q", a, show(got))
		}
	}
}

// TestDemangling shows names of C++ as the source has them.
func TestDemangling(t *testing.T) {
	prog := compile(t, "g++", "p.cc", "namespace net { struct Server { __attribute__((noinline)) int run(int n) { return n * 3; } }; }\nint main(int argc, char **) { return net::Server().run(argc); }\n", "-g")
	addr, _ := symbol(t, prog, "_ZN3net6Server3runEi")
	if got := show(New("/nowhere", MaxDebug).Lookup(prog, addr)); got != "net::Server::run p.cc:1" {
		t.Errorf("got %q", got)
	}
	for mangled, want := range map[string]string{
		"main": "main", "_ZN3net6Server3runEi": "net::Server::run", "_ZN": "_ZN",
		"_ZN4core3ptr8drop_box17h0123456789abcdefE": "core::ptr::drop_box", "_RNvC4rust4main": "rust::main",
	} {
		if got := Demangle(mangled); got != want {
			t.Errorf("%s is %q, want %q", mangled, got, want)
		}
	}
	if got := Demangle("_Z" + strings.Repeat("1", 3*maxName)); len(got) > maxName {
		t.Errorf("a long name has %d bytes", len(got))
	}
}

// TestDamagedFiles looks addresses up in files that are no ELF files, or damaged ones.
func TestDamagedFiles(t *testing.T) {
	prog := compile(t, "gcc", "p.c", source, "-g")
	addr, _ := symbol(t, prog, "outer")
	whole, err := os.ReadFile(prog)
	must.Do(t, err)
	damaged := filepath.Join(t.TempDir(), "damaged")
	for i := 0; i < len(whole); i += len(whole)/200 + 1 {
		b := slices.Clone(whole)
		for j := range min(7, len(b)-i) {
			b[i+j] ^= 0xa5
		}
		must.Do(t, os.WriteFile(damaged, b, 0o644))
		New("/nowhere", MaxDebug).Lookup(damaged, addr)
		must.Do(t, os.WriteFile(damaged, whole[:i], 0o644))
		New("/nowhere", MaxDebug).Lookup(damaged, addr)
	}
	for _, name := range []string{"", "/", "/dev/zero", "/nowhere", "linux-vdso.so.1"} {
		if got := New("/nowhere", MaxDebug).Lookup(name, addr); got != nil {
			t.Errorf("%q has %q", name, show(got))
		}
	}
}

// TestFilesAreBounded reads no more files than the bound allows.
func TestFilesAreBounded(t *testing.T) {
	table := New("/nowhere", MaxDebug)
	for i := range maxFiles + 10 {
		table.Lookup(fmt.Sprint("/nowhere/", i), 1)
	}
	if len(table.objects) != maxFiles {
		t.Errorf("%d files", len(table.objects))
	}
}
