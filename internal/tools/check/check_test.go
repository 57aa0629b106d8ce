package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/rules"
)

func TestRunAllStopsAtFirstFailure(t *testing.T) {
	broken := errors.New("broken")
	var ran []string
	pass := func(name string, output string, err error) step {
		return step{name: name, run: func(context.Context) (string, error) {
			ran = append(ran, name)
			return output, err
		}}
	}
	var out strings.Builder
	err := runAll(t.Context(), &out, []step{pass("one", "quiet", nil), pass("two", "the reason", broken), pass("three", "", nil)})
	if !errors.Is(err, broken) || !slices.Equal(ran, []string{"one", "two"}) {
		t.Errorf("ran %v with error %v, want it to stop after two", ran, err)
	}
	if s := out.String(); !strings.Contains(s, "the reason") || strings.Contains(s, "quiet") {
		t.Errorf("want the output of the failed step only:\n%s", s)
	}
}

// TestSkippedStep: a step that cannot run on this machine does not end the gate, is printed with
// the reason, and is not counted as passed.
func TestSkippedStep(t *testing.T) {
	ran := false
	steps := []step{
		{name: "one", run: func(context.Context) (string, error) {
			return "", fmt.Errorf("on the whole: %w", skipped("no such device"))
		}},
		{name: "two", run: func(context.Context) (string, error) { ran = true; return "", nil }},
	}
	var out strings.Builder
	if err := runAll(t.Context(), &out, steps); err != nil || !ran {
		t.Errorf("got %v; the next step ran: %v", err, ran)
	}
	for _, want := range []string{"[1/2] one: SKIPPED, no such device\n", "1 of 2 steps passed in", "1 SKIPPED\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// TestOptionalSteps run only by name.
func TestOptionalSteps(t *testing.T) {
	steps := []step{{name: "one"}, {name: "more", lane: optional}}
	if got, err := choose(steps, ""); err != nil || len(got) != 1 || got[0].name != "one" {
		t.Errorf("the gate is %v, %v", got, err)
	}
	if got, err := choose(steps, "more"); err != nil || len(got) != 1 || got[0].name != "more" {
		t.Errorf("more is %v, %v", got, err)
	}
}

func TestRunAllInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := runAll(ctx, &strings.Builder{}, []step{{name: "one", run: func(context.Context) (string, error) { return "", nil }}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupted check says %v", err)
	}
}

// TestLanes has steps that run side by side: each lane in its order, the step after them when
// all have ended. When a step fails, the steps that run go on, and no other step begins.
func TestLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		takes := func(name string, lane int, d time.Duration, err error) step {
			return step{name: name, lane: lane, run: func(ctx context.Context) (string, error) {
				ctx, cancel := context.WithTimeout(ctx, d)
				defer cancel()
				<-ctx.Done()
				return "what " + name + " says", err
			}}
		}
		steps := []step{
			takes("one", 0, time.Second, nil), takes("long", 1, 35*time.Second, nil),
			takes("short", 2, 2*time.Second, nil), takes("second", 2, 3*time.Second, nil), takes("last", 0, time.Second, nil),
		}
		var out strings.Builder
		if err := runAll(t.Context(), &out, steps); err != nil {
			t.Error(err)
		}
		const want = `[1/5] one
[1/5] one: ok, 1s
[2/5] long
[3/5] short
[3/5] short: ok, 2s
[4/5] second
[4/5] second: ok, 3s
[2/5] long: running for 30s, 31s in all
[2/5] long: ok, 35s
[5/5] last
[5/5] last: ok, 1s
all 5 steps passed in 37s
`
		inOrder := func(s string) string { // either of two lanes may begin first
			return strings.Replace(s, "[3/5] short\n[2/5] long\n", "[2/5] long\n[3/5] short\n", 1)
		}
		if got := inOrder(out.String()); got != want {
			t.Errorf("printed\n%s\nwant\n%s", got, want)
		}
		steps[2] = takes("short", 2, 2*time.Second, broken)
		steps[3].lane = 1
		out.Reset()
		if err := runAll(t.Context(), &out, steps); !errors.Is(err, broken) {
			t.Errorf("%v, want that a step is broken", err)
		}
		const failed = `[1/5] one
[1/5] one: ok, 1s
[2/5] long
[3/5] short
[3/5] short: FAILED after 2s
what short says
[2/5] long: running for 30s, 31s in all
[2/5] long: ok, 35s
`
		if got := inOrder(out.String()); got != failed {
			t.Errorf("printed\n%s\nwant\n%s", got, failed)
		}
	})
}

// TestRunAllTellsHowFarItIs compares all that is printed of steps that take
// their time, which is virtual.
func TestRunAllTellsHowFarItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		takes := func(d time.Duration, err error) func(context.Context) (string, error) {
			return func(ctx context.Context) (string, error) {
				ctx, cancel := context.WithTimeout(ctx, d)
				defer cancel()
				<-ctx.Done()
				return "the reason", err
			}
		}
		steps := make([]step, 10)
		for i := range steps {
			steps[i] = step{name: fmt.Sprintf("quick%d", i+1), run: takes(0, nil)}
		}
		steps[1] = step{name: "slow", run: takes(74560*time.Millisecond, nil)}
		steps[2] = step{name: "quick", run: takes(1500*time.Millisecond, nil)}
		var out strings.Builder
		if err := runAll(t.Context(), &out, steps[:3]); err != nil {
			t.Error(err)
		}
		const want = `[1/3] quick1
[1/3] quick1: ok, 0s
[2/3] slow
[2/3] slow: running for 30s, 30s in all
[2/3] slow: running for 1m0s, 1m0s in all
[2/3] slow: ok, 1m14.6s
[3/3] quick
[3/3] quick: ok, 1.5s
all 3 steps passed in 1m16.1s
`
		if out.String() != want {
			t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
		}
		steps[9].run = takes(31*time.Second, errors.New("broken"))
		out.Reset()
		if err := runAll(t.Context(), &out, steps); err == nil {
			t.Error("a step fails and the check passes")
		}
		const end = `[10/10] quick10
[10/10] quick10: running for 30s, 1m46.1s in all
[10/10] quick10: FAILED after 31s
the reason
`
		if s := out.String(); !strings.HasPrefix(s, "[ 1/10] quick1\n") || !strings.HasSuffix(s, end) {
			t.Errorf("printed\n%s\nwant it to end with\n%s", s, end)
		}
	})
}

func TestChoose(t *testing.T) {
	steps := allSteps(time.Second, "results")
	got, err := choose(steps, "vet,gofmt")
	if err != nil || len(got) != 2 || got[0].name != "vet" || got[1].name != "gofmt" {
		t.Errorf("chose %d steps, error %v", len(got), err)
	}
	if all, err := choose(steps, ""); err != nil || len(all) != len(steps)-1 { // all but fuzz
		t.Errorf("chose %d of %d steps, error %v", len(all), len(steps), err)
	}
	if _, err := choose(steps, "vet,nothing"); err == nil {
		t.Error("an unknown step is accepted")
	}
}

func TestUnformatted(t *testing.T) {
	fsys := fstest.MapFS{
		"good.go":          {Data: []byte("package a\n")},
		"a/testdata/in.go": {Data: []byte("package   a\n")},
		".hidden/in.go":    {Data: []byte("package   a\n")},
	}
	if out, err := unformatted(fsys); err != nil {
		t.Errorf("formatted files are rejected: %v %s", err, out)
	}
	fsys["a/bad.go"] = &fstest.MapFile{Data: []byte("package   a\n")}
	if out, err := unformatted(fsys); !errors.Is(err, errUnformatted) || out != "a/bad.go" {
		t.Errorf("got %q, %v for a file that is not formatted", out, err)
	}
}

// writeModule writes files as a module into a temporary directory.
func writeModule(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	fsys := fstest.MapFS{"go.mod": {Data: []byte("module example.com/m\n\ngo 1.26\n")}}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	must.Do(t, os.CopyFS(dir, fsys))
	return dir
}

// generator is a program that writes the file out.txt.
var generator = map[string]string{
	"a.go":          "package m\n\n//go:generate go run ./gen\n",
	"gen/main.go":   "package main\n\nimport \"os\"\n\nfunc main() {\n\tif os.WriteFile(\"out.txt\", []byte(\"new\"), 0o644) != nil {\n\t\tos.Exit(1)\n\t}\n}\n",
	".git/out.txt":  "not copied",
	"out.txt":       "old",
	"untouched.txt": "x",
}

func TestOutdated(t *testing.T) {
	dir := writeModule(t, generator)
	out, err := outdated(t.Context(), dir)
	if !errors.Is(err, errOutdated) || out != "out.txt" {
		t.Errorf("got %q, %v for an outdated file", out, err)
	}
	name := filepath.Join(dir, "out.txt")
	if text, err := os.ReadFile(name); err != nil || string(text) != "old" {
		t.Errorf("the check changed the tree: %q, %v", text, err)
	}
	must.Do(t, os.WriteFile(name, []byte("new"), 0o600))
	if out, err := outdated(t.Context(), dir); err != nil {
		t.Errorf("a fresh file is rejected: %q, %v", out, err)
	}
}

func TestGoCommandFails(t *testing.T) {
	dir := writeModule(t, map[string]string{"a.go": "package m\n\nfunc f() int { return \"no\" }\n"})
	out, err := goCommand(t.Context(), dir, nil, "build", "./...")
	if err == nil || !strings.Contains(out, "a.go:3") {
		t.Errorf("a package that does not compile gives %q, %v", out, err)
	}
}

// TestRaceDetected seeds a data race, at which the test step must fail.
func TestRaceDetected(t *testing.T) {
	dir := writeModule(t, map[string]string{"a_test.go": `package m

import "testing"

func TestRace(t *testing.T) {
	n, done := 0, make(chan bool)
	go func() { n++; close(done) }()
	n++
	<-done
}
`})
	out, err := runTests(t.Context(), dir, filepath.Join(t.TempDir(), "results"))
	if err == nil || !strings.Contains(out, "DATA RACE") {
		t.Errorf("a seeded race passes: %v\n%s", err, out)
	}
}

// TestRunTests shows that the results of all tests are kept, and that of what
// they printed only the failed ones' is shown.
func TestRunTests(t *testing.T) {
	dir := writeModule(t, map[string]string{"a_test.go": `package m

import "testing"

func TestGood(t *testing.T) { t.Log("quiet") }
func TestBad(t *testing.T)  { t.Run("part", func(t *testing.T) { t.Error("seeded") }) }
`})
	results := filepath.Join(t.TempDir(), "results")
	out, err := runTests(t.Context(), dir, results)
	if err == nil || !strings.Contains(out, "seeded") || strings.Contains(out, "quiet") {
		t.Errorf("a test that fails gives %v and\n%s", err, out)
	}
	text, err := os.ReadFile(results)
	must.Do(t, err)
	for _, want := range []string{`"Action":"pass","Package":"example.com/m","Test":"TestGood"`, `"Action":"fail","Package":"example.com/m","Test":"TestBad/part"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the results lack %s:\n%s", want, text)
		}
	}
}

func TestRunTestsBuildFails(t *testing.T) {
	dir := writeModule(t, map[string]string{"a.go": "package m\n\nfunc f() int { return \"no\" }\n", "a_test.go": "package m\n"})
	out, err := runTests(t.Context(), dir, filepath.Join(t.TempDir(), "results"))
	if err == nil || !strings.Contains(out, "a.go:3") {
		t.Errorf("a package that does not compile gives %v and\n%s", err, out)
	}
}

// TestDetect has packages of which the race detector watches all tests, some and none. Each
// package that the tables name exists, with a test that its pattern matches.
func TestDetect(t *testing.T) {
	several := []string{"./internal/driver", "./verbs", "./capi/ucm", "./bench", "./internal/pages", "./internal/sim", "./cmd/softhca"}
	got := detect(&threads{several, []string{"./c"}, []string{"./b"}})
	want := detection{
		[]string{"./verbs", "./internal/driver", "./capi/ucm"},
		[]string{"./internal/sim", "./cmd/softhca"}, raceTests["./internal/sim"] + "|" + raceTests["./cmd/softhca"], []string{"./c"},
		[]string{"./cmd/softhca", "./bench", "./internal/pages", "./internal/sim", "./b"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	parts, err := byThreads(os.DirFS("../../.."))
	must.Do(t, err)
	test := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for p, pattern := range raceTests {
		files, err := filepath.Glob(filepath.Join("../../..", p, "*_test.go"))
		must.Do(t, err)
		matches := func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && slices.ContainsFunc(test.FindAllSubmatch(text, -1), func(m [][]byte) bool {
				return regexp.MustCompile(pattern).Match(m[1])
			})
		}
		if !slices.Contains(parts.several, p) || !slices.ContainsFunc(files, matches) {
			t.Errorf("%s: no test matches %q, or it has no threads", p, pattern)
		}
	}
	all := detect(&parts)
	for _, p := range slowest {
		if !slices.Contains(slices.Concat(all.race, all.plain), p) {
			t.Errorf("%s, one of the slowest, has no tests", p)
		}
	}
	for _, p := range parts.several { // what libraries do with threads is watched
		row, _ := rules.Find(path.Clean(p))
		if _, listed := raceTests[p]; !listed && !row.Program() && !slices.Contains(all.race, p) {
			t.Errorf("the race detector does not watch %s", p)
		}
	}
}

// TestByThreads has packages that start threads themselves, in their tests, and
// in what they import, and others that do not.
func TestByThreads(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	test := file("package x\n")
	fsys := fstest.MapFS{
		"go.mod":                  {Data: []byte("module m\n")},
		"starts/a.go":             file("package x\nfunc f() { go f() }"),
		"starts/a_test.go":        test,
		"tests/a_test.go":         file("package x\nimport \"sync\"\nfunc f(w *sync.WaitGroup) { w.Go(nil) }"),
		"users/a_test.go":         file("package x\nimport _ \"m/between\""),
		"between/a.go":            file("package x\nimport _ \"m/starts\""),
		"inc/a.go":                file("package x\nimport \"C\""),
		"inc/a_test.go":           test,
		"points/a_test.go":        file("package x\nimport \"unsafe\"\nvar p unsafe.Pointer"),
		"untested/a.go":           file("package x\nfunc f() { go f() }"),
		"simple/a.go":             file("package x\nimport _ \"os\""),
		"simple/a_test.go":        file("package x\nimport _ \"m/beside\""),
		"beside/a.go":             file("package x"),
		"beside/a_test.go":        file("package x\nimport \"testing\"\nfunc f(t *testing.T) { t.Parallel() }"),
		"users/nothing/a.go":      file("package x\nfunc Go() {}"),
		"users/nothing/a_test.go": test,
	}
	got, err := byThreads(fsys)
	want := threads{
		[]string{"./beside", "./starts", "./tests", "./users"},
		[]string{"./points"},
		[]string{"./inc", "./simple", "./users/nothing"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

func TestFuzzTargets(t *testing.T) {
	fsys := fstest.MapFS{
		"go.mod":      {Data: []byte("module m\n")},
		"b/b_test.go": {Data: []byte("package b\nfunc FuzzB() {}\nfunc (x) FuzzM() {}\nfunc TestX() {}")},
		"a/a_test.go": {Data: []byte("package a\nfunc FuzzA() {}")},
		"a/a.go":      {Data: []byte("package a\nfunc FuzzNot() {}")},
	}
	m, err := rules.Load(fsys)
	must.Do(t, err)
	if got, want := fuzzTargets(m), []target{{"a", "FuzzA"}, {"b", "FuzzB"}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestFuzzAll seeds a target that any input breaks.
func TestFuzzAll(t *testing.T) {
	dir := writeModule(t, map[string]string{"a/a_test.go": `package a

import "testing"

func FuzzA(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) { t.Error("seeded") })
}
`})
	out, err := fuzzAll(t.Context(), dir, 10*time.Second)
	if err == nil || !strings.Contains(out, "seeded") {
		t.Errorf("a target that fails passes: %v\n%s", err, out)
	}
}

// TestFuzzAllIsGuided fuzzes a target that passes: its binary must count coverage, which one
// that go test -c builds without further flags does not.
func TestFuzzAllIsGuided(t *testing.T) {
	dir := writeModule(t, map[string]string{"a/a_test.go": `package a

import "testing"

func FuzzA(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {})
}
`})
	if out, err := fuzzAll(t.Context(), dir, time.Millisecond); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	bin := filepath.Join(t.TempDir(), "a.test")
	if out, err := goCommand(t.Context(), dir, nil, "test", "-c", "-o="+bin, "./a"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	a := target{"a", "FuzzA"}
	err := a.fuzz(t.Context(), filepath.Join(dir, "a"), bin, "-test.fuzztime=1ms", "-test.fuzzcachedir="+t.TempDir())
	if failed := new(fuzzFailure); !errors.As(err, &failed) || !errors.Is(failed.error, errUnguided) {
		t.Errorf("a target without coverage guidance: %v", err)
	}
}

func TestOnlyLate(t *testing.T) {
	const late = "--- FAIL: FuzzX (10.01s)\n    context deadline exceeded\nFAIL\n"
	if !onlyLate(late) {
		t.Error("the end of the time counts as a failure")
	}
	if onlyLate(late + "Failing input written to testdata/fuzz/FuzzX/1\n") {
		t.Error("a failing input does not count as a failure")
	}
	if onlyLate("--- FAIL: FuzzX (0.01s)\n    a_test.go:7: wrong\n") {
		t.Error("a failed test does not count as a failure")
	}
}
