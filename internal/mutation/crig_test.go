//go:build mutation

package mutation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/softhca/softhca/internal/libraries"
)

// cJudge is tests that judge mutants in C.
type cJudge struct {
	pkg  string   // whose tests they are
	run  string   // their names, as of the flag -run
	args []string // more flags
	lib  string   // the directory of the library that it judges
	of   []string // its files whose mutants it judges
}

// The tests of programs, and those of the preload library.
const (
	programTests = "capi/test"
	preloadTests = "capi/preload/check"
)

// The libraries with mutants, by the directories of their sources.
const (
	verbsDir   = "capi/libibverbs"
	preloadDir = "capi/preload"
	engineDir  = "capi/engine" // in Go
)

// cLibraries are where the tests look for the libraries, in a directory of builds.
var cLibraries = map[string]string{verbsDir: "plain/libibverbs.so.1", preloadDir: "libsofthca-preload.so", engineDir: libraries.Engine}

const (
	// scenarioTimeout bounds each program that the tests run, and cTestTimeout all programs
	// of one judge.
	scenarioTimeout = time.Minute
	cTestTimeout    = 3 * time.Minute
	// hangSeconds is how long the threads of the model may do nothing.
	hangSeconds = 5
)

// cRig builds libraries with mutants in C and has tests judge them.
type cRig struct {
	root string // of the module
	dir  string // for the builds
}

// newCRig builds the tests, and the libraries and programs that they run, without a mutant.
func newCRig(ctx context.Context, root, dir string) (*cRig, error) {
	g := &cRig{root, dir}
	for _, pkg := range []string{programTests, preloadTests} {
		if err := g.tool(ctx, "go", "test", "-vet=off", "-c", "-o", g.tests(pkg), "./"+pkg); err != nil {
			return nil, err
		}
	}
	out, complaint, err := run(ctx, filepath.Join(root, programTests), 0, g.tests(programTests), "-test.run=^TestBuilds$", "-builds", g.base())
	if err == nil && !(exists(filepath.Join(g.base(), cLibraries[verbsDir])) && exists(filepath.Join(g.base(), "cm"))) {
		return nil, errNoHeaders
	}
	if err != nil {
		return nil, fmt.Errorf("build what the tests of %s test: %w\n%s%s", programTests, err, out, complaint)
	}
	for _, lib := range []string{verbsDir, preloadDir} {
		if err := g.compile(ctx, root, lib, filepath.Join(g.dir, lib), "*.c"); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// errNoHeaders says that programs in C cannot be built here, and the tests skip them.
var errNoHeaders = errors.New("no C compiler, or no headers of libibverbs or librdmacm")

// base returns the directory of the builds without a mutant.
func (g *cRig) base() string { return filepath.Join(g.dir, "base") }

// tests returns the path of the tests of a package.
func (g *cRig) tests(pkg string) string { return filepath.Join(g.dir, filepath.Base(pkg)+".test") }

// tool runs a tool in the module.
func (g *cRig) tool(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = g.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// compile compiles sources of a library in a tree to objects in a directory.
func (g *cRig) compile(ctx context.Context, tree, lib, dir, sources string) error {
	files, err := filepath.Glob(filepath.Join(tree, lib, sources))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no %s in %s: %w", sources, lib, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		o := filepath.Join(dir, filepath.Base(f)+".o")
		if err := g.tool(ctx, "gcc", libraries.Dialect, "-O0", "-fPIC", "-pthread", "-fvisibility=hidden", "-fno-strict-aliasing",
			"-U_FORTIFY_SOURCE", "-w", "-c", "-o", o, f); err != nil {
			return err
		}
	}
	return nil
}

// build returns a directory of builds in which a file of a library has another text. It
// compiles that file anew, or all files if it is a header; the rest is that of the base.
func (g *cRig) build(ctx context.Context, file string, text []byte) (string, error) {
	dir, err := os.MkdirTemp(g.dir, "mutant")
	if err != nil {
		return "", err
	}
	lib, name := filepath.Dir(file), filepath.Base(file)
	if lib == engineDir {
		return dir, g.buildEngine(ctx, dir, file, text)
	}
	tree, objects := filepath.Join(dir, "tree"), filepath.Join(dir, "objects")
	if err := linkTree(tree, g.root, file, text); err != nil {
		return "", err
	}
	sources := name
	if filepath.Ext(name) == ".h" {
		sources = "*.c"
	}
	if err := g.compile(ctx, tree, lib, objects, sources); err != nil {
		return "", err
	}
	all, err := filepath.Glob(filepath.Join(g.dir, lib, "*.o"))
	if err != nil {
		return "", err
	}
	for i, o := range all {
		if own := filepath.Join(objects, filepath.Base(o)); exists(own) {
			all[i] = own
		}
	}
	if err := linkBuilds(dir, g.base(), cLibraries[lib]); err != nil {
		return "", err
	}
	args := []string{"-shared", "-pthread", "-Wl,-z,now,-z,nodelete,-soname," + filepath.Base(cLibraries[lib]), "-o", filepath.Join(dir, cLibraries[lib])}
	if lib == verbsDir {
		args = append(args, "-Wl,--version-script="+filepath.Join(verbsDir, "libibverbs.map"))
	}
	return dir, g.tool(ctx, "gcc", append(append(args, all...), "-ldl")...)
}

// buildEngine fills a directory with builds whose engine has another text in one file.
func (g *cRig) buildEngine(ctx context.Context, dir, file string, text []byte) error {
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(g.root, file): changed}})
	if err != nil {
		return err
	}
	if err := errors.Join(os.WriteFile(changed, text, 0o600), os.WriteFile(overlay, list, 0o600), linkBuilds(dir, g.base(), cLibraries[engineDir])); err != nil {
		return err
	}
	args := append([]string{"build", "-overlay", overlay, "-o", filepath.Join(dir, cLibraries[engineDir])}, libraries.EngineFlags()...)
	return g.tool(ctx, "go", append(args, "./"+engineDir)...)
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// linkTree makes a tree of links to the sources in C, in which one file has another text.
// The compiler looks for included files next to the link, not next to the source.
func linkTree(tree, root, file string, text []byte) error {
	for _, dir := range []string{verbsDir, preloadDir, "capi/engine", "internal/ring/cpeer"} {
		if err := os.MkdirAll(filepath.Join(tree, dir), 0o755); err != nil {
			return err
		}
		files, err := filepath.Glob(filepath.Join(root, dir, "*.[ch]"))
		if err != nil {
			return err
		}
		for _, f := range files {
			name := filepath.Join(dir, filepath.Base(f))
			if name == file {
				err = os.WriteFile(filepath.Join(tree, name), text, 0o600)
			} else {
				err = os.Symlink(f, filepath.Join(tree, name))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// linkBuilds makes links to all builds of a directory but one.
func linkBuilds(dir, base, but string) error {
	if err := os.Mkdir(filepath.Join(dir, "plain"), 0o755); err != nil {
		return err
	}
	for _, pattern := range []string{"*", "plain/*"} {
		files, err := filepath.Glob(filepath.Join(base, pattern))
		if err != nil {
			return err
		}
		for _, f := range files {
			name, err := filepath.Rel(base, f)
			if err != nil {
				return err
			}
			if name == but || name == "plain" {
				continue
			}
			if err := os.Symlink(f, filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// try asks judges about the library in which a file has another text. It returns the test
// that notices, or nothing.
func (g *cRig) try(ctx context.Context, file string, text []byte, judges []cJudge) (by string, err error) {
	dir, err := g.build(ctx, file, text)
	if err != nil {
		return "", err
	}
	asked := 0
	for i := range judges {
		if j := &judges[i]; j.lib != filepath.Dir(file) || !slices.Contains(j.of, filepath.Base(file)) {
			continue
		}
		asked++
		if by, err = g.ask(ctx, dir, &judges[i]); by != "" || err != nil {
			return by, err
		}
	}
	if asked == 0 {
		err = fmt.Errorf("no judge is for %s: add it to one", file)
	}
	return "", err
}

var (
	failedTests = regexp.MustCompile(`(?m)^( *)--- FAIL: (\S+) `)
	reasons     = regexp.MustCompile(`(?m)^ *(?:\S+_test\.go:\d+: )?((?:thread \d+, step |\S+\.c:\d+: failed: |not true: |\S+: signal: |a completion of ).*)$`)
)

// ask runs the tests of a judge on a directory of builds. It returns the name of a test that
// fails, with the line that says why, and nothing if all pass. A program that hangs is noticed,
// because its test fails: the test bounds its programs itself, and gets shorter bounds here.
func (g *cRig) ask(ctx context.Context, dir string, j *cJudge) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, cTestTimeout)
	defer cancel()
	args := append([]string{"-test.count=1", "-test.failfast", "-test.parallel=1", "-test.run=" + j.run}, j.args...)
	switch j.pkg {
	case programTests:
		args = append(args, "-builds", dir, "-scenario-time", scenarioTimeout.String(), "-model-hang", strconv.Itoa(hangSeconds))
	case preloadTests:
		args = append(args, "-library", filepath.Join(dir, cLibraries[preloadDir]))
	}
	out, complaint, err := run(ctx, filepath.Join(g.root, j.pkg), 0, g.tests(j.pkg), args...)
	said := string(out) + string(complaint)
	if err == nil {
		if strings.Contains(said, "testing: warning: no tests to run") {
			return "", fmt.Errorf("%s has no test %s", j.pkg, args)
		}
		return "", nil
	}
	if errors.Is(err, errHangs) {
		return "", fmt.Errorf("%s: %w\n%s", j.pkg, err, said) // the bounds of its programs should have ended it
	}
	all := failedTests.FindAllStringSubmatch(said, -1)
	if len(all) == 0 {
		return "", fmt.Errorf("%s: no test fails: %w\n%s", j.pkg, err, said)
	}
	deepest := slices.MaxFunc(all, func(a, b []string) int { return len(a[1]) - len(b[1]) })
	if why := reasons.FindStringSubmatch(said); why != nil {
		return deepest[2] + ": " + why[1], nil
	}
	return deepest[2], nil
}
