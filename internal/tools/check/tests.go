package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/softhca/softhca/internal/rules"
)

// whole is the pattern in raceTests that matches all tests of a package.
const whole = "."

// raceTests lists the exceptions to the rule of which tests run with the race detector: all
// tests of libraries with several threads, and none of programs and tools, because they
// use the threads of libraries. For each package there is a pattern of the tests that run
// with it: whole, or "" for none. Programs with threads that share data are listed. With
// make test, all tests run with the race detector.
var raceTests = map[string]string{
	"./capi/ucm":                         whole,
	"./cmd/softhca":                      "^Test(Perf|ExplainLive|C11_)",
	"./cmd/softhca/internal/connections": whole,
	"./cmd/softhca/internal/metrics":     "^Test(Serve|ScrapesAreBounded|Textfiles)$",
	"./cmd/softhca/internal/perf":        whole,
	"./internal/judge":                   "",               // starts adapters, which have tests of their own
	"./internal/sim":                     "^TestLastSeed$", // the workers of a campaign share seeds and sums
}

// slowest are the packages whose tests take longest. Their tests start first, so that the
// step does not end with one of them alone.
var slowest = []string{"./verbs", "./rdmacm", "./rdmacm/stream", "./internal/broker", "./cmd/softhca", "./capi/test"}

// runTests runs the tests of the module in dir and writes the output of go test -json to a
// file: with the race detector according to raceTests, and with the compiler's checks of
// pointers only where packages use unsafe. Tests with the race detector run at the same time
// as the others, because many tests wait for timers or for other processes. It returns the
// output of the tests that failed. The tests are not vetted, because vet is a step of its
// own, and their binaries have no debug information.
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
	lanes := []*lane{
		{dir: dir, runs: []testRun{{plan.race, []string{"-race"}}, {plan.raceSome, []string{"-race", "-run=" + plan.some}}}},
		{dir: dir, runs: []testRun{{plan.pointers, []string{"-gcflags=-d=checkptr"}}, {plan.plain, nil}}},
	}
	for i, l := range lanes {
		if l.results, err = os.Create(fmt.Sprint(results, ".", i)); err != nil {
			return "", err
		}
		defer os.Remove(l.results.Name())
		defer l.results.Close()
	}
	var all errgroup.Group // without a context: after a failure the other lanes go on
	for _, l := range lanes {
		all.Go(func() error { l.err = l.run(ctx); return nil })
	}
	_ = all.Wait()
	var stderr strings.Builder
	for _, l := range lanes {
		err = errors.Join(err, l.err, l.copyTo(f))
		stderr.WriteString(l.stderr.String())
	}
	if err == nil {
		return "", f.Close()
	}
	if _, e := f.Seek(0, io.SeekStart); e != nil {
		return stderr.String(), errors.Join(err, e)
	}
	output, e := failures(f)
	return stderr.String() + output, errors.Join(err, e)
}

// lane is groups of tests that run one after the other, and their results.
type lane struct {
	dir     string
	runs    []testRun
	results *os.File
	stderr  strings.Builder
	err     error
}

// testRun is a group of packages that go test runs with the same options.
type testRun struct {
	pkgs    []string
	options []string
}

// run runs all groups, also after a failure.
func (l *lane) run(ctx context.Context) (err error) {
	for _, r := range l.runs {
		if len(r.pkgs) == 0 {
			continue
		}
		cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"test", "-json", "-vet=off", "-ldflags=-w", "-timeout=15m"}, r.options, r.pkgs)...)
		cmd.Dir = l.dir
		cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
		cmd.Stdout, cmd.Stderr = l.results, &l.stderr
		if e := cmd.Run(); e != nil {
			err = errors.Join(err, fmt.Errorf("go test %s: %w", strings.Join(r.options, " "), e))
		}
	}
	return err
}

// copyTo appends the results to a file.
func (l *lane) copyTo(f *os.File) error {
	if _, err := l.results.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err := io.Copy(f, l.results)
	return err
}

// detection says which packages are tested in which way.
type detection struct {
	race     []string // with the race detector
	raceSome []string // with the race detector, but only the tests that match some
	some     string   // a regular expression
	pointers []string // with the compiler's checks of pointers
	plain    []string // with neither
}

// detect plans the tests.
func detect(parts *threads) detection {
	d := detection{pointers: parts.pointers}
	var patterns []string
	for _, p := range parts.several {
		switch pattern := racePattern(p); pattern {
		case whole:
			d.race = append(d.race, p)
			continue
		case "":
		default:
			d.raceSome = append(d.raceSome, p)
			patterns = append(patterns, pattern)
		}
		d.plain = append(d.plain, p)
	}
	d.some, d.plain = strings.Join(patterns, "|"), append(d.plain, parts.one...)
	slices.SortStableFunc(d.race, slowestFirst)
	slices.SortStableFunc(d.plain, slowestFirst)
	return d
}

// racePattern returns the pattern of the tests that run with the race detector, of a package
// with several threads.
func racePattern(pkg string) string {
	if pattern, ok := raceTests[pkg]; ok {
		return pattern
	}
	if row, ok := rules.Find(path.Clean(pkg)); ok && row.Program() {
		return ""
	}
	return whole
}

func slowestFirst(a, b string) int {
	return cmp.Compare(slices.Index(slowest, b), slices.Index(slowest, a))
}
