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
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/softhca/softhca/internal/libraries"
	"github.com/softhca/softhca/internal/rules"
)

// allSteps returns the gate in order: what fails fast comes first. The tests
// leave their results in a file, from which the step after them learns that
// the proofs of the requirements ran and passed.
func allSteps(fuzztime time.Duration, results string) []step {
	root := os.DirFS(".")
	steps := []step{
		{"gofmt", func(context.Context) (string, error) { return unformatted(root) }},
		{"build", tool(nil, "build", libraries.NoVCS, "./...")},
		{"build-js-engine", buildEngine},
		{"vet", tool(nil, "vet", "./...")},
		{"staticcheck", tool(nil, "tool", "staticcheck", "./...")},
		{"generated", func(ctx context.Context) (string, error) { return outdated(ctx, ".") }},
		{"modules", tool(nil, "mod", "verify")},
		{"modules-tidy", tool(nil, "mod", "tidy", "-diff")},
		{"tests", func(ctx context.Context) (string, error) { return runTests(ctx, ".", results) }},
		{"proofs", tool(nil, "run", "./internal/tools/coverage", "-results", results)},
		{"churn", tool(nil, "test", "-count=1", "-run=^TestChurn", "./internal/memory")},
		{"simulation", tool(nil, "run", "./cmd/softhca", "sim", "--seeds", "1..1000")},
		{"simulation-connect", tool(nil, "run", "./cmd/softhca", "sim", "--profile", "connect", "--seeds", "1..1000")},
		{"simulation-rd", tool(nil, "run", "./cmd/softhca", "sim", "--profile", "rd", "--seeds", "1..1000")},
		{"mutations", mutations},
		{"fuzz", func(ctx context.Context) (string, error) { return fuzzAll(ctx, ".", fuzztime) }},
	}
	var types []step
	for _, p := range platforms() {
		types = append(types, step{"types-" + p.name, func(ctx context.Context) (string, error) { return p.typeCheck(ctx, ".") }})
	}
	const after = 2 // gofmt, build
	return slices.Insert(steps, after, types...)
}

// tool returns a step that runs the go command with the environment env added.
func tool(env []string, args ...string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) { return goCommand(ctx, ".", env, args...) }
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

// fewThreads has the packages in which the race detector looks only at the tests
// of the pattern, "" for none. The others have one thread or run whole commands,
// whose packages have tests of their own; the detector makes them ten times
// slower. make test runs all of them with it.
var fewThreads = map[string]string{
	"./cmd/softhca":    "^Test(Perf|Interrupt|ExplainLive|C9_|C11_)",
	"./internal/pages": "",               // runs the commands of the pages
	"./internal/sim":   "^TestLastSeed$", // of a campaign, whose workers share seeds and sums
}

// runTests runs the tests of the module in dir and writes what go test -json
// prints to a file: with the race detector where several threads run, and with its
// checks of pointers only where packages use unsafe. It returns what the failed ones printed, in
// their order. The tests are not vetted, as vet is a step of its own, and their binaries
// have no debug information.
func runTests(ctx context.Context, dir, results string) (string, error) {
	parts, err := byThreads(os.DirFS(dir))
	if err != nil {
		return "", err
	}
	plan := detect(&parts)
	f, err := os.Create(results)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var stderr strings.Builder
	run := func(pkgs []string, checks ...string) error {
		if len(pkgs) == 0 {
			return nil
		}
		cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"test", "-json", "-vet=off", "-ldflags=-w", "-timeout=6m"}, checks, pkgs)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
		cmd.Stdout, cmd.Stderr = f, &stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("go test %s: %w", strings.Join(checks, " "), err)
		}
		return nil
	}
	err = errors.Join(
		run(plan.race, "-race"),
		run(plan.raceSome, "-race", "-run="+plan.some),
		run(plan.pointers, "-gcflags=-d=checkptr"),
		run(plan.plain))
	if err == nil {
		return "", f.Close()
	}
	if _, e := f.Seek(0, io.SeekStart); e != nil {
		return stderr.String(), errors.Join(err, e)
	}
	output, e := failures(f)
	return stderr.String() + output, errors.Join(err, e)
}

// detection says which packages are tested in which way.
type detection struct {
	race     []string // with the race detector
	raceSome []string // with it, the tests that match some
	some     string   // a regular expression
	pointers []string // with the compiler's checks of pointers
	plain    []string // with neither
}

// detect plans the tests.
func detect(parts *threads) detection {
	d := detection{pointers: parts.pointers}
	var patterns []string
	for _, p := range parts.several {
		switch pattern, few := fewThreads[p]; {
		case !few:
			d.race = append(d.race, p)
			continue
		case pattern != "":
			d.raceSome = append(d.raceSome, p)
			patterns = append(patterns, pattern)
		}
		d.plain = append(d.plain, p)
	}
	d.some, d.plain = strings.Join(patterns, "|"), append(d.plain, parts.one...)
	return d
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
			for _, key := range slices.Sorted(maps.Keys(printed)) { // of tests that did not end
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

// mutations asks for an eighth of the seeded bugs, another one with each commit: all
// of them, which make mutations asks for, take as long as the rest of the gate.
func mutations(ctx context.Context) (string, error) {
	commit, err := exec.CommandContext(ctx, "git", "rev-parse", "HEAD").Output()
	if err != nil {
		commit = nil // a tree without its history
	}
	share := crc32.ChecksumIEEE(commit) % 8
	return goCommand(ctx, ".", nil, "test", "-tags=mutation", "-count=1", "-timeout=30m", "./internal/mutation", "-share="+strconv.Itoa(int(share)))
}

// buildEngine builds for the browser what the table of levels calls engine.
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
// on one processor, until one fails.
func fuzzAll(ctx context.Context, dir string, each time.Duration) (string, error) {
	targets, err := fuzzTargets(os.DirFS(dir))
	if err != nil {
		return "", err
	}
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(runtime.NumCPU())
	for _, t := range targets {
		all.Go(func() error {
			output, err := goCommand(ctx, dir, nil, "test", "-run=^$", "-fuzz=^"+t.name+"$", "-fuzztime="+each.String(), "-parallel=1", "./"+t.dir)
			if err == nil || onlyLate(output) {
				return nil
			}
			return &fuzzFailure{output, err}
		})
	}
	var failed *fuzzFailure
	if err = all.Wait(); errors.As(err, &failed) {
		return failed.output, failed.error
	}
	return "", err
}

// fuzzFailure is the end of a fuzz target that failed.
type fuzzFailure struct {
	output string
	error
}

// onlyLate reports whether a fuzz target failed only because its workers were
// not done when the time was over: the go command calls that a failure at
// times (golang/go#48591). A real one leaves the input that caused it.
func onlyLate(output string) bool {
	return strings.Contains(output, "context deadline exceeded") &&
		!strings.Contains(output, "Failing input") && !strings.Contains(output, "panic")
}
