package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/softhca/softhca/internal/debian"
	"github.com/softhca/softhca/internal/libraries"
	"github.com/softhca/softhca/internal/rules"
)

// allSteps returns the gate in order: steps that fail fast come first. The
// tests leave their results in a file, from which the step after them learns
// that the proofs of the requirements ran and passed. The steps after the gate's
// run only where they are named.
func allSteps(fuzztime time.Duration, results string) []step {
	root := os.DirFS(".")
	const alone, seeded, random = 0, 1, 2 // lanes
	steps := []step{
		{"packages", alone, installPackages},
		{"gofmt", alone, func(context.Context) (string, error) { return unformatted(root) }},
		{"build", alone, tool("build", libraries.NoVCS, "-ldflags=-w", "./...")},
		{"build-js-engine", alone, buildEngine},
		{"vet", alone, tool("vet", "./...")},
		{"staticcheck", alone, tool("tool", "-modfile=tools/go.mod", "staticcheck", "./...")},
		{"generated", alone, func(ctx context.Context) (string, error) { return outdated(ctx, ".") }},
		{"modules", alone, tool("mod", "verify")},
		{"modules-tidy", alone, tool("mod", "tidy", "-diff")},
		{"modules-tools", alone, tool("-C", "tools", "mod", "tidy", "-diff")},
		{"tests", alone, func(ctx context.Context) (string, error) { return runTests(ctx, ".", results) }},
		{"proofs", alone, tool("run", "./internal/tools/coverage", "-results", results)},
		{"programs", alone, onLinux(tool("run", "./capi/check", "-gate"))},
		{"interop", alone, onLinux(interop)},
		{"mutations", seeded, mutations},
		{"churn", random, tool("test", "-count=1", "-run=^TestChurn", "./internal/memory")},
		{"lock-order", random, onLinux(tool(slices.Concat([]string{"test", "-tags=lockorder", "-short", "-skip=" + long}, locking)...))},
		{"ring-model", random, tool("test", "-tags=ringmodel", "./internal/fabric/near/ring")},
		{"simulation", random, simulation("mixed", 1000)},
		{"simulation-xrc", random, simulation("xrc", 200)},
		{"simulation-windows", random, simulation("windows", 200)},
		{"simulation-events", random, simulation("events", 200)},
		{"simulation-near", random, simulation("near", 200)},
		{"simulation-nasty", random, simulation("nasty", 300)},
		{"simulation-connect", random, simulation("connect", 1000)},
		{"simulation-rd", random, simulation("rd", 1000)},
		{"fuzz", optional, func(ctx context.Context) (string, error) { return fuzzAll(ctx, ".", fuzztime) }},
	}
	var types []step
	for _, p := range platforms() {
		types = append(types, step{"types-" + p.name, alone, func(ctx context.Context) (string, error) { return p.typeCheck(ctx, ".") }})
	}
	const after = 3 // the first steps: packages, gofmt and build
	return slices.Insert(steps, after, types...)
}

// needed is what the tests need in addition to Go, on Debian. The steps programs and interop install
// what the programs that they run need.
var needed = debian.Needed{
	"gcc":            "gcc",
	"libc6-dev":      "/usr/include/stdio.h",
	"iproute2":       "ip",
	"libibverbs-dev": "/usr/include/infiniband/verbs.h",
	"librdmacm-dev":  "/usr/include/rdma/rdma_cma.h",
	"rdmacm-utils":   "rping",
}

// installPackages installs what the tests need, or fails and says how: without the headers no test
// of the libraries in C would run. Other systems than Linux do not have these libraries.
func installPackages(ctx context.Context) (string, error) {
	if runtime.GOOS != "linux" {
		return "", skipped("the libraries in C exist on Linux only")
	}
	err := needed.Install(ctx, os.Stderr)
	if errors.Is(err, errors.ErrUnsupported) {
		err = fmt.Errorf("%w (Fedora: dnf install gcc iproute rdma-core-devel librdmacm-utils)", err)
	}
	return "", err
}

// onLinux returns the step, which is skipped on other systems.
func onLinux(run func(context.Context) (string, error)) func(context.Context) (string, error) {
	if runtime.GOOS != "linux" {
		return func(context.Context) (string, error) { return "", skipped("it needs Linux") }
	}
	return run
}

// telling matches the cases against Linux's rxe that the gate runs: of each kind of program, of the
// operations, errors and faults.
const telling = "^(library-|rping/|ucmatose/|udaddy/|mckey/|parting/|operations/|sequences/|forged/|data/[^/]*/loss and reordering/|" +
	"exceptions/[^/]*/(bad_rkey_read|rnr_exceeded|peer_destroyed|psn_ahead)/)"

// interop runs a few cases against Linux's rxe, in one emulated machine. It is skipped where this
// machine cannot emulate another one.
func interop(ctx context.Context) (string, error) {
	output, err := goCommand(ctx, ".", nil, "run", "./interop", "-short", "-kernel", "6.1", "-run", telling)
	if said, unable := strings.CutSuffix(strings.TrimSpace(output), "\nexit status 3"); err != nil && unable {
		err = skipped(said[strings.LastIndexByte(said, '\n')+1:])
	}
	return output, err
}

// locking are the packages whose tests take all locks of an adapter in Go, alone and one under the
// other. With the tag lockorder, a lock in the wrong order panics.
var locking = []string{"./internal/lock", "./internal/broker", "./internal/device", "./verbs", "./rdmacm", "./rdmacm/stream", "./capi/ucm"}

// long matches tests of these packages that take seconds, and no locks that others do not take
// in the same order.
const long = "^Test(" +
	"D3_ThousandComeAndGo|StoppedHost|AnotherUser|AloneWithASquatter|Strangers|Flood|ManyComeAndGo|Away|NextBrokerKnows|FalseDeputy|PortTaken|SilentConnection|Look|" +
	"Stress|PostRecvRacesFlush|TimedByQPN|SinglePosts|TimedQP|V6_QPsRunOut|CloseWithWorkOutstanding)$"

// tool returns a step that runs the go command.
func tool(args ...string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) { return goCommand(ctx, ".", nil, args...) }
}

// goCommand runs the go command in dir and returns everything it printed.
func goCommand(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	output, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return string(output), err
}

// failures returns what failed tests and packages printed, and the messages of
// the compiler, from the output of go test -json.
func failures(r io.Reader) (string, error) {
	printed := map[string][]string{}
	var out strings.Builder
	for d := json.NewDecoder(r); ; {
		var e struct{ Action, Package, ImportPath, Test, Output string }
		switch err := d.Decode(&e); {
		case errors.Is(err, io.EOF):
			for _, key := range slices.Sorted(maps.Keys(printed)) { // output of tests that did not end
				out.WriteString(strings.Join(printed[key], ""))
			}
			return out.String(), nil
		case err != nil:
			return out.String(), err
		}
		key := e.Package + " " + e.Test
		switch e.Action {
		case "build-output":
			out.WriteString(e.Output)
		case "output":
			printed[key] = append(printed[key], e.Output)
		case "pass", "skip":
			delete(printed, key)
		case "fail":
			out.WriteString(strings.Join(printed[key], ""))
			delete(printed, key)
		}
	}
}

// simulation returns a step that runs n simulations of a profile that are the same with each
// commit, and a fifth as many that are new with each. A failure prints the seed.
func simulation(profile string, n int) func(context.Context) (string, error) {
	run := func(ctx context.Context, first, last int) (string, error) {
		seeds := fmt.Sprintf("%d..%d", first, last)
		return goCommand(ctx, ".", nil, "run", "./cmd/softhca", "sim", "--profile", profile, "--seeds", seeds)
	}
	return func(ctx context.Context) (string, error) {
		if output, err := run(ctx, 1, n); err != nil {
			return output, err
		}
		begin := n + 1 + int(commitNumber(ctx))
		return run(ctx, begin, begin+n/5-1)
	}
}

// mutations runs an eighth of the seeded bugs, a different eighth with each commit:
// all of them, as with make mutations, take as long as the rest of the gate.
func mutations(ctx context.Context) (string, error) {
	share := strconv.Itoa(int(commitNumber(ctx) % 8))
	return goCommand(ctx, ".", nil, "test", "-tags=mutation", "-count=1", "-timeout=30m", "./internal/mutation", "-share="+share)
}

// commitNumber returns a number of 32 bits that differs from commit to commit; 0 in a tree without
// its history.
func commitNumber(ctx context.Context) uint32 {
	commit, err := exec.CommandContext(ctx, "git", "rev-parse", "HEAD").Output()
	if err != nil {
		return 0
	}
	return crc32.ChecksumIEEE(commit)
}

// buildEngine builds the packages of kind engine in the table of levels for the
// browser.
func buildEngine(ctx context.Context) (string, error) {
	m, err := rules.Load(os.DirFS("."))
	if err != nil {
		return "", err
	}
	pkgs := m.EnginePackages()
	if len(pkgs) == 0 {
		return "", fmt.Errorf("the module has no engine package")
	}
	return goCommand(ctx, ".", []string{"GOOS=js", "GOARCH=wasm"}, append([]string{"build"}, pkgs...)...)
}

// fuzzAll runs every fuzz target of the module in dir for the given time, each
// on one processor, until one fails. The targets of a package share its build. Only packages of
// the module count coverage: with -fuzz, the go command would compile all other packages
// anew, which takes longer than the fuzzing. As with go test, the inputs that reach new code are
// kept in the cache of the go command.
func fuzzAll(ctx context.Context, dir string, each time.Duration) (string, error) {
	m, err := rules.Load(os.DirFS(dir))
	if err != nil {
		return "", err
	}
	bins, err := os.MkdirTemp("", "check-fuzz-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(bins)
	cache, err := exec.CommandContext(ctx, "go", "env", "GOCACHE").Output()
	if err != nil {
		return "", err
	}
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(runtime.NumCPU())
	builds := map[string]func() (string, error){}
	for i, t := range fuzzTargets(m) {
		bin := filepath.Join(bins, strconv.Itoa(i))
		build, ok := builds[t.dir]
		if !ok {
			build = sync.OnceValues(func() (string, error) {
				output, err := goCommand(ctx, dir, nil, "test", "-c", "-gcflags="+m.Path+"/...=-d=libfuzzer", "-vet=off", "-ldflags=-w", "-o="+bin, "./"+t.dir)
				if err != nil {
					err = &fuzzFailure{output, err}
				}
				return bin, err
			})
			builds[t.dir] = build
		}
		all.Go(func() error {
			bin, err := build()
			if err != nil {
				return err
			}
			kept := filepath.Join(strings.TrimSpace(string(cache)), "fuzz", m.Path, t.dir)
			return t.fuzz(ctx, filepath.Join(dir, t.dir), bin, "-test.fuzztime="+each.String(), "-test.fuzzcachedir="+kept)
		})
	}
	var failed *fuzzFailure
	if err = all.Wait(); errors.As(err, &failed) {
		return failed.output, failed.error
	}
	return "", err
}

// fuzz runs the target in the directory of its package.
func (t target) fuzz(ctx context.Context, dir, bin string, args ...string) error {
	cmd := exec.CommandContext(ctx, bin, append([]string{"-test.run=^$", "-test.fuzz=^" + t.name + "$", "-test.parallel=1"}, args...)...)
	cmd.Dir = dir
	output, err := cmd.CombinedOutput()
	switch {
	case err != nil && !onlyLate(string(output)):
	case unguided(string(output)):
		err = errUnguided
	default:
		return nil
	}
	return &fuzzFailure{string(output), fmt.Errorf("%s of ./%s: %w", t.name, t.dir, err)}
}

// fuzzFailure is the end of a fuzz target that failed.
type fuzzFailure struct {
	output string
	error
}

// errUnguided is the failure of a target whose test binary does not count coverage.
var errUnguided = errors.New("it is fuzzed without coverage guidance")

// unguided reports whether a fuzz target warns that its binary does not count coverage.
func unguided(output string) bool {
	return strings.Contains(output, "without coverage guidance")
}

// onlyLate reports whether a fuzz target failed only because its workers were
// not done when the time was over: the go command calls that a failure at
// times (golang/go#48591). A real one leaves the input that caused it.
func onlyLate(output string) bool {
	return strings.Contains(output, "context deadline exceeded") &&
		!strings.Contains(output, "Failing input") && !strings.Contains(output, "panic")
}
