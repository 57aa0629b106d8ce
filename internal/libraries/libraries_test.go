package libraries

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/must"
)

// tree makes a source tree with as little in it as can be built.
func tree(t *testing.T) string {
	t.Helper()
	if _, err := Compiler(); err != nil {
		// The built files are in C.
		t.Skip(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                         "module example.com/tree\n\ngo 1.26\n",
		"capi/engine/main.go":            "package main\n\nimport \"C\"\n\n//export answer\nfunc answer() C.int { return 42 }\n\nfunc main() {}\n",
		"capi/libibverbs/libibverbs.map": "IBVERBS_1.0 { global: ibv_answer; local: *; };\n",
		"capi/libibverbs/verbs.c":        "__attribute__((visibility(\"default\"))) int ibv_answer(void) { return 42; }\n",
		"capi/preload/preload.c":         "int answer(void) { return 42; }\n",
		"capi/memory/memory.c":           "int answer(void) { return 42; }\n",
	} {
		write(t, filepath.Join(dir, name), text)
	}
	return dir
}

func write(t *testing.T, name, text string) {
	t.Helper()
	must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)))
}

// files returns the names of what is in a directory.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	found, err := os.ReadDir(dir)
	must.Do(t, err)
	for _, f := range found {
		names = append(names, f.Name())
	}
	return names
}

// TestBuild builds all libraries, over those that are there, and finds them from a
// command in the same directory.
func TestBuild(t *testing.T) {
	src, prefix := tree(t), t.TempDir()
	lib, command := filepath.Join(prefix, "lib", "softhca"), filepath.Join(prefix, "bin", "softhca")
	write(t, command, "")
	if _, ok := Installed(command); ok {
		t.Error("libraries are found where there are none")
	}
	header := parts[0].header
	if cc, err := Compiler(); err != nil || !hasHeader(t.Context(), cc, header) {
		if err := Build(t.Context(), src, lib, io.Discard); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "libibverbs-dev") {
			t.Errorf("without %s: %v", header, err)
		}
		// Our libibverbs needs the headers of libibverbs.
		t.Skipf("no %s here", header)
	}
	for range 2 {
		var said strings.Builder
		must.Do(t, Build(t.Context(), src, lib, &said))
		for _, file := range []string{Verbs, Preload, Memory, Engine} {
			if !strings.Contains(said.String(), "building "+file) {
				t.Errorf("%s is built in silence: %q", file, said.String())
			}
		}
		if got, want := files(t, lib), []string{sourcesFile, Verbs, Memory, Preload, Engine}; !slices.Equal(got, want) {
			t.Errorf("built %q, want %q", got, want)
		}
	}
	if dir, ok := Installed(command); !ok || dir != lib {
		t.Errorf("found %q, want %q", dir, lib)
	}
	if sources, err := fingerprint(src); err != nil {
		t.Fatal(err)
	} else if b, err := os.ReadFile(filepath.Join(lib, sourcesFile)); err != nil || string(b) != sources {
		t.Errorf("the libraries are said to be of the sources %q, %v, want %q", b, err, sources)
	}
	link := filepath.Join(t.TempDir(), "softhca")
	must.Do(t, os.Symlink(command, link))
	if dir, ok := Installed(link); !ok || dir != lib {
		t.Errorf("by a symbolic link: found %q, want %q", dir, lib)
	}
	write(t, filepath.Join(src, "capi/preload/preload.c"), "int answer(void) { return nonsense; }\n")
	if err := Build(t.Context(), src, lib, io.Discard); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("what the compiler says is not in the error: %v", err)
	}
	if got := files(t, lib); len(got) != 5 {
		t.Errorf("a build that failed leaves %q", got)
	}
}

// TestCached builds once, and again when the sources change; it removes builds that have
// long been unused.
func TestCached(t *testing.T) {
	src, cache := tree(t), t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	base := filepath.Join(cache, "softhca", "lib")
	built := func() string {
		t.Helper()
		key, err := fingerprint(src)
		must.Do(t, err)
		return filepath.Join(base, key)
	}
	first := built()
	write(t, filepath.Join(first, Preload), "") // as if it had been built
	var said strings.Builder
	if dir, err := Cached(t.Context(), src, &said); err != nil || dir != first || said.Len() != 0 {
		t.Errorf("%s, %v, and it says %q", dir, err, said.String())
	}
	write(t, filepath.Join(src, "capi/engine/engine_test.go"), "package main\n")
	write(t, filepath.Join(src, "docs/page.go"), "")
	if built() != first {
		t.Error("a test is taken for a change of the libraries")
	}
	write(t, filepath.Join(src, "capi/preload/new.h"), "\n")
	second := built()
	if second == first {
		t.Error("a change of the sources is not seen")
	}
	t.Setenv("CC", "another compiler")
	if built() == second {
		t.Error("another compiler is not seen")
	}
	old := time.Now().Add(-2 * keep)
	must.Do(t, os.Chtimes(first, old, old))
	write(t, filepath.Join(second, Preload), "")
	sweep(base, time.Now())
	if got := files(t, base); !slices.Equal(got, []string{filepath.Base(second)}) {
		t.Errorf("after a while there are %q, want %q", got, filepath.Base(second))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Cached(ctx, src, &said); err == nil || !strings.HasPrefix(said.String(), "softhca: building the libraries of "+src) {
		t.Errorf("a build that is interrupted: %v, and it says %q", err, said.String())
	}
	if got := files(t, base); len(got) != 1 {
		t.Errorf("a build that is interrupted leaves %q", got)
	}
}

// TestNoCache checks the error, with its advice, for a user without a directory for the
// libraries.
func TestNoCache(t *testing.T) {
	src := tree(t)
	for variable, value := range map[string]string{"HOME": "", "XDG_CACHE_HOME": os.DevNull + "/cache"} {
		t.Setenv("XDG_CACHE_HOME", "")
		t.Setenv("HOME", "")
		t.Setenv(variable, value)
		_, err := Cached(t.Context(), src, io.Discard)
		if err == nil || !strings.HasPrefix(err.Error(), "no directory to build the libraries in: ") || !strings.HasSuffix(err.Error(), ": set XDG_CACHE_HOME") {
			t.Errorf("%s=%s: %v", variable, value, err)
		}
	}
}

// TestInTree finds the libraries that were built in the source tree, as long as the sources
// are the same.
func TestInTree(t *testing.T) {
	src := tree(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	built := filepath.Join(src, "build", "lib")
	build := func() { // TestBuild builds for real
		t.Helper()
		sources, err := fingerprint(src)
		must.Do(t, err)
		for _, name := range []string{Verbs, Engine, Preload} {
			write(t, filepath.Join(built, name), "")
		}
		write(t, filepath.Join(built, sourcesFile), sources)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // what is not built yet is not built
	found := func() bool {
		dir, err := InTree(ctx, src, io.Discard)
		return err == nil && dir == built
	}
	build()
	if !found() {
		t.Error("the libraries are built anew")
	}
	write(t, filepath.Join(src, "capi/preload/new.h"), "\n")
	if found() {
		t.Error("a change of the sources is not seen")
	}
	build()
	if !found() {
		t.Error("the libraries are built anew after they were built again")
	}
	must.Do(t, os.Remove(filepath.Join(built, Engine)))
	if found() {
		t.Error("a directory without the engine's library is accepted")
	}
}

// TestForeignTree builds in a tree under version control that belongs to another user: git
// refuses to tell its revision.
func TestForeignTree(t *testing.T) {
	if os.Getuid() != 0 {
		// Only root can give files away.
		t.Skip("root only")
	}
	src, dir := tree(t), t.TempDir()
	t.Setenv("GOFLAGS", "-buildvcs=auto")
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull) // which might call the tree safe
	if out, err := exec.CommandContext(t.Context(), "git", "init", "-q", src).CombinedOutput(); err != nil {
		// Without git there is no revision to ask for.
		t.Skipf("no git: %v: %s", err, out)
	}
	must.Do(t, filepath.WalkDir(src, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, 12345, 12345))
	}))
	plain := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "plain"), enginePackage)
	plain.Dir = src
	if out, err := plain.CombinedOutput(); err == nil || !strings.Contains(string(out), "VCS") {
		t.Fatalf("the tree is not one where the revision is asked for in vain: %v, %s", err, out)
	}
	must.Do(t, buildEngine(t.Context(), src, dir))
}

// TestNoCompiler checks that the error says what to install.
func TestNoCompiler(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("CC", "")
	if _, err := Compiler(); !errors.Is(err, ErrNoCompiler) || !strings.Contains(err.Error(), "apt install gcc") {
		t.Errorf("%v", err)
	}
	if err := buildEngine(t.Context(), ".", "."); err == nil || !strings.Contains(err.Error(), "go.dev/dl") {
		t.Errorf("without Go: %v", err)
	}
}

// TestTree finds the sources that this test was built from.
func TestTree(t *testing.T) {
	dir, ok := Tree()
	if !ok {
		// Built with -trimpath it does not know.
		t.Skip("the paths of the sources are not known")
	}
	if !exists(filepath.Join(dir, "internal", "libraries", "libraries_test.go")) {
		t.Errorf("the tree is said to be %s", dir)
	}
}
