//go:build linux && cgo

package test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/softhca/softhca/internal/libraries"
	"github.com/softhca/softhca/internal/must"
)

// buildsDir is for tests that run repeatedly on the same builds, or on builds of other sources:
// internal/mutation puts libraries with seeded bugs there.
var buildsDir = flag.String("builds", "", "test the libraries and programs in this directory, which TestBuilds fills, instead of building them")

// sharedBuilds names the environment variable that holds the directory of the builds. All tests
// of this process share it, also the test processes that it starts in network namespaces.
const sharedBuilds = "SOFTHCA_TEST_BUILDS"

// TestMain creates the directory of the builds, and removes it after the tests.
func TestMain(m *testing.M) {
	if os.Getenv(sharedBuilds) != "" {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "softhca-capi-test-")
	if err == nil {
		err = os.Setenv(sharedBuilds, dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "capi/test:", err)
		os.Exit(1)
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, "capi/test:", err)
	}
	os.Exit(code)
}

// variant is a way to compile the library and the program.
type variant struct {
	name    string
	flags   []string // for the C compiler
	standin bool     // also build the engines in C
}

// The variants of the tests: the libraries as users have them, and for tools. The sanitizers of
// threads and memory cannot look into Go's runtime: the thread sanitizer and valgrind check
// only the C side, over an engine in C. The thread sanitizer does not see a memcpy that the
// compiler inlines, so memcpy stays a call. Optimising these variants would take the compiler
// longer than all scenarios take.
var (
	plain     = variant{name: "plain", standin: true}
	sanitized = variant{name: "sanitized", flags: []string{"-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-DLOCK_ORDER"}}
	threads   = variant{name: "threads", flags: []string{"-O0", "-fsanitize=thread", "-fno-builtin", "-DLOCK_ORDER"}, standin: true}
)

// The files of the engine, of its stand-in in C, and of the engine in C that records calls.
const (
	engineFile   = "softhca-engine.so"
	standinFile  = "standin.so"
	recorderFile = "recorder.so"
)

// builds is a directory with the engine and one for each variant.
type builds struct {
	dir     string
	program string        // the directory of its sources, and its name
	runs    atomic.Uint32 // number of addresses given out
}

// newBuilds builds the engine, and variants of the library and of a program in parallel, unless
// an earlier test has built them. It skips the test on a machine where programs for libibverbs
// cannot be built.
func newBuilds(t *testing.T, program string, variants ...variant) *builds {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no C compiler: install gcc") // no test in C can run
	}
	if !compiles("#include <infiniband/verbs.h>\n", "-E") {
		// The library is compiled with these headers.
		t.Skip("no headers of libibverbs: install libibverbs-dev (Debian, Ubuntu) or rdma-core-devel (Fedora)")
	}
	if *buildsDir != "" {
		return &builds{dir: *buildsDir, program: program}
	}
	b := &builds{dir: os.Getenv(sharedBuilds), program: program}
	b.buildAll(t, variants...)
	return b
}

// TestBuilds fills the directory that the flag -builds names; without the flag it does
// nothing. Other tests then start at once, on the plain variant alone:
//
//	go test ./capi/test -run TestBuilds -builds /tmp/builds
//	go test ./capi/test -run TestD1_Program/transfer -builds /tmp/builds
func TestBuilds(t *testing.T) {
	if *buildsDir == "" {
		t.Skip("-builds names no directory") // the other tests build for themselves
	}
	b := newBuilds(t, "program")
	b.buildAll(t, plain)
	b.buildProgram(t, plain, "model")
	b.buildChecked(t, plain)
	t.Run("races", func(t *testing.T) { b.compileRaces(t, "gcc") })
	b.buildNasty(t, plain)
	b.buildLimits(t, plain)
	b.buildCM(t, filepath.Join(b.dir, "cm"))
}

// buildAll builds the engine, the preload library and some variants.
func (b *builds) buildAll(t *testing.T, variants ...variant) {
	t.Helper()
	t.Run("build", func(t *testing.T) {
		t.Run("engine", func(t *testing.T) {
			t.Parallel()
			if b.built(engineFile) {
				return
			}
			args := append([]string{"build", "-o", filepath.Join(b.dir, engineFile)}, libraries.EngineFlags()...)
			run(t, "go", append(args, "../engine")...)
		})
		t.Run("preload", func(t *testing.T) {
			t.Parallel()
			if b.built(libraries.Preload) {
				return
			}
			if err := libraries.BuildOne(t.Context(), "../..", b.dir, libraries.Preload); err != nil {
				t.Error(err)
			}
		})
		for _, v := range variants {
			t.Run(v.name, func(t *testing.T) {
				t.Parallel()
				b.build(t, v)
			})
		}
	})
	if t.Failed() {
		t.FailNow()
	}
}

// compiles reports whether the C compiler accepts a source with these flags. Small compilers
// have no sanitizers.
func compiles(source string, flags ...string) bool {
	cmd := exec.Command("gcc", append(slices.Clone(flags), "-x", "c", "-o", os.DevNull, "-")...)
	cmd.Stdin = strings.NewReader(source)
	return cmd.Run() == nil
}

// has reports whether a variant was built: the compiler supports its flags.
func (b *builds) has(v variant) bool { return exists(b.dir, v.name, b.program) }

// built reports whether an earlier test has built a file. TestBuilds always builds.
func (b *builds) built(parts ...string) bool {
	return *buildsDir == "" && exists(append([]string{b.dir}, parts...)...)
}

// exists reports whether there is a file at the path with these elements.
func exists(parts ...string) bool {
	_, err := os.Stat(filepath.Join(parts...))
	return err == nil
}

// build builds a variant into a directory of its own.
func (b *builds) build(t *testing.T, v variant) {
	t.Helper()
	if len(v.flags) > 0 && !compiles("int main(void) { return 0; }\n", v.flags...) {
		return
	}
	if !b.built(v.name) {
		b.buildLibrary(t, v)
	}
	if !b.built(v.name, b.program) {
		b.buildProgram(t, v, b.program)
	}
}

// buildLibrary builds the library of a variant, and the engines in C.
func (b *builds) buildLibrary(t *testing.T, v variant) {
	t.Helper()
	dir := filepath.Join(b.dir, v.name)
	must.Do(t, os.MkdirAll(dir, 0o755))
	shared := append(v.compiler(), "-shared", "-fvisibility=hidden", "-Wl,-z,nodelete")
	library := append(slices.Clone(shared), "-Wl,-soname,libibverbs.so.1", "-Wl,-z,defs", "-Wl,--version-script=../libibverbs/libibverbs.map",
		"-o", filepath.Join(dir, "libibverbs.so.1"))
	if len(v.flags) > 0 { // the program defines the sanitizers' functions
		library = slices.DeleteFunc(library, func(f string) bool { return f == "-Wl,-z,defs" })
	}
	run(t, "gcc", append(append(library, sources(t, "../libibverbs")...), "-ldl")...)
	if v.standin {
		for _, file := range []string{standinFile, recorderFile} {
			args := append(slices.Clone(shared), "-o", filepath.Join(dir, file))
			run(t, "gcc", append(args, sources(t, strings.TrimSuffix(file, ".so"))...)...)
		}
	}
}

// compiler returns the compiler flags of a variant.
func (v *variant) compiler() []string {
	return append([]string{libraries.Dialect, "-O1", "-g", "-fPIC", "-pthread", "-Wall", "-Wextra", "-Werror"}, v.flags...)
}

// buildProgram builds the program of a directory with the library of a variant.
func (b *builds) buildProgram(t *testing.T, v variant, program string) {
	t.Helper()
	dir := filepath.Join(b.dir, v.name)
	args := append(append(v.compiler(), "-o", filepath.Join(dir, program)), sources(t, program)...)
	run(t, "gcc", append(args, "-L"+dir, "-l:libibverbs.so.1")...)
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
