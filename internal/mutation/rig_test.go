//go:build mutation

package mutation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// rig builds programs and tests of a module with edits in it, and runs them.
type rig struct {
	root   string   // of the module
	dir    string   // for what is built
	common *overlay // with all edits that are grafted on
	alone  map[int]*overlay
}

// newRig prepares the builds of edits, whose numbers begin with 1.
func newRig(root, dir string, edits []*edit) (*rig, error) {
	g := &rig{root: root, dir: dir, alone: make(map[int]*overlay)}
	var grafts []*graft
	for i, e := range edits {
		f, err := e.graft(i + 1)
		if err != nil {
			return nil, err
		}
		if f != nil {
			grafts = append(grafts, f)
			continue
		}
		text, err := e.file()
		if err != nil {
			return nil, err
		}
		if g.alone[i+1], err = g.newOverlay(map[string][]byte{e.source.path: text}); err != nil {
			return nil, err
		}
	}
	var err error
	g.common, err = g.newOverlay(graftAll(grafts))
	return g, err
}

// of returns the build that has the edit of a number; 0 is none.
func (g *rig) of(number int) *overlay {
	if b := g.alone[number]; b != nil {
		return b
	}
	return g.common
}

// overlay is what is built with some files changed.
type overlay struct {
	root string
	dir  string

	mu       sync.Mutex // guards what follows
	programs map[testsOf]func() (string, error)
}

// testsOf names the tests of a package, built with tags; the zero value is the probe.
type testsOf struct{ pkg, tags string }

// newOverlay writes changed files, by their paths below the root, and what tells
// the go command of them.
func (g *rig) newOverlay(changed map[string][]byte) (*overlay, error) {
	dir, err := os.MkdirTemp(g.dir, "build")
	if err != nil {
		return nil, err
	}
	replace := make(map[string]string)
	for i, name := range slices.Sorted(maps.Keys(changed)) {
		file := filepath.Join(dir, strconv.Itoa(i)+".go")
		if err := os.WriteFile(file, changed[name], 0o600); err != nil {
			return nil, err
		}
		replace[filepath.Join(g.root, name)] = file
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return nil, err
	}
	b := &overlay{root: g.root, dir: dir, programs: make(map[testsOf]func() (string, error))}
	return b, os.WriteFile(filepath.Join(dir, "overlay.json"), list, 0o600)
}

// program returns the path of the probe or of tests; it is built once.
func (b *overlay) program(tests testsOf) (string, error) {
	b.mu.Lock()
	once, ok := b.programs[tests]
	if !ok {
		bin := filepath.Join(b.dir, strconv.Itoa(len(b.programs))+".exe")
		once = sync.OnceValues(func() (string, error) {
			if tests == (testsOf{}) {
				return bin, b.goCommand("build", "-o", bin, "./internal/mutation/probe")
			}
			return bin, b.goCommand("test", "-tags="+tests.tags, "-vet=off", "-c", "-o", bin, "./"+tests.pkg)
		})
		b.programs[tests] = once
	}
	b.mu.Unlock()
	return once()
}

// goCommand runs the go command with the changed files. All that is wrong
// with them is in the error.
func (b *overlay) goCommand(what string, args ...string) error {
	args = append([]string{"-buildvcs=false", "-ldflags=-w", "-overlay", filepath.Join(b.dir, "overlay.json")}, args...)
	if out, err := b.tryGo(what, args...); err == nil || !bytes.Contains(out, []byte("too many errors")) {
		return err
	}
	_, err := b.tryGo(what, append([]string{"-gcflags=./...=-e"}, args...)...) // compiles all packages anew
	return err
}

// tryGo returns what the go command prints, which is in the error too.
func (b *overlay) tryGo(what string, args ...string) ([]byte, error) {
	cmd := exec.Command("go", append([]string{what}, args...)...)
	cmd.Dir = b.root
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("go %s: %w\n%s", what, err, out)
	}
	return out, err
}

var lineOfGraft = regexp.MustCompile(`mutant(\d+)\.go:\d+(?::\d+)?: .*`)

// refused returns the numbers of the edits that the compiler complains about,
// and what it says.
func refused(err error) map[int]string {
	bad := make(map[int]string)
	for _, m := range lineOfGraft.FindAllStringSubmatch(err.Error(), -1) {
		if n, err := strconv.Atoi(m[1]); err == nil {
			bad[n] = m[0]
		}
	}
	return bad
}

// report is the probe's output, and the outcome of the test that was run.
type report struct {
	Violation *violation
	Scripts   []outcome
	Test      *outcome `json:"-"`
}

type violation struct {
	Check  string
	Seed   uint64
	Detail string
}

type outcome struct {
	Name   string
	Covers []string
	Error  string
}

// failed returns the names of the scripts that failed.
func (r *report) failed() []string {
	var names []string
	for _, s := range r.Scripts {
		if s.Error != "" {
			names = append(names, s.Name)
		}
	}
	return names
}

// scriptDir is the directory of the scripts, below the root.
var scriptDir = filepath.Join("internal", "script", "testdata")

const scriptExt = ".qp"

// scripts returns the names of all scripts.
func (g *rig) scripts() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(g.root, scriptDir, "*"+scriptExt))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s has no scripts", scriptDir)
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), scriptExt)
	}
	return files, err
}

// probe runs scripts, and seeds of the simulator if profile is not empty,
// with the edit of a number.
func (g *rig) probe(ctx context.Context, number int, profile string, seeds int, scripts []string) (*report, error) {
	bin, err := g.of(number).program(testsOf{})
	if err != nil {
		return nil, err
	}
	var args []string
	if profile != "" {
		args = append(args, "-profile", profile, "-seeds", strconv.Itoa(seeds))
	}
	for _, name := range scripts {
		args = append(args, filepath.Join(scriptDir, name+scriptExt))
	}
	out, complaint, err := run(ctx, g.root, number, bin, args...)
	if err != nil {
		return nil, fmt.Errorf("probe: %w\n%s", err, complaint)
	}
	r := new(report)
	return r, json.Unmarshal(out, r)
}

// test runs tests of a package with the edit of a number and returns why they
// failed, or nil.
func (g *rig) test(ctx context.Context, number int, tests testsOf, args ...string) (failure, err error) {
	bin, err := g.of(number).program(tests)
	if err != nil {
		return nil, err
	}
	args = append([]string{"-test.count=1", "-test.failfast"}, args...)
	if g.usesRapid(tests.pkg) { // it would write its failing input next to the sources
		args = append(args, "-rapid.nofailfile")
	}
	out, complaint, err := run(ctx, filepath.Join(g.root, tests.pkg), number, bin, args...)
	if err != nil {
		return fmt.Errorf("%w\n%s%s", err, out, complaint), nil
	}
	if strings.Contains(string(complaint), "testing: warning: no tests to run") {
		return nil, fmt.Errorf("%s has no test %s", tests.pkg, args)
	}
	return nil, nil
}

// usesRapid reports whether tests of a package have the flags of package rapid.
func (g *rig) usesRapid(pkg string) bool {
	files, _ := filepath.Glob(filepath.Join(g.root, pkg, "*_test.go")) // the pattern is right
	return slices.ContainsFunc(files, func(name string) bool {
		text, err := os.ReadFile(name)
		return err == nil && bytes.Contains(text, []byte(`"pgregory.net/rapid"`))
	})
}

// errHangs says that a program did not end in time. A program broken on purpose
// may never end.
var errHangs = errors.New("it does not end")

// run runs a program in a directory with the edit of a number, and returns
// what it wrote to its standard output and error. Its soft limit is 8 GiB of
// addresses: one that is broken on purpose must not take the memory of the
// machine. Nothing that it starts outlives it.
func run(ctx context.Context, dir string, number int, program string, args ...string) (out, complaint []byte, err error) {
	args = append([]string{"-c", `ulimit -S -v 8388608 2>/dev/null; exec "$0" "$@"`, program}, args...)
	cmd := exec.CommandContext(ctx, "/bin/sh", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), fmt.Sprint(selectVar, "=", number))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what a test that failed has left; mostly nothing
	}
	if ctx.Err() != nil {
		err = errHangs
	}
	return stdout.Bytes(), stderr.Bytes(), err
}
