//go:build mutation

package mutation

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/sim"
)

var (
	searchCount = flag.Int("search-count", 0, "number of random edits to make, to find those that no test detects")
	searchSeed  = flag.Uint64("search-seed", 1, "draws the edits of the search")
	searchIn    = flag.String("search-in", "", "packages to search, comma-separated; empty: all")
	searchNotes = flag.String("search-notes", "", "file that keeps who noticed; what was noticed by its notes is not judged again")
)

// searched are the packages in which edits are made, and those whose tests
// judge them: the package itself and some above it.
var searched = map[string][]string{
	"roce":              {"roce", "internal/qp", "internal/hca", "verbs"},
	"internal/memory":   {"internal/memory", "internal/qp", "internal/hca", "verbs"},
	"internal/ring":     {"internal/ring", "internal/qp", "internal/hca", "verbs"},
	"internal/deadline": {"internal/deadline", "internal/cm", "internal/hca"},
	"internal/packet":   {"internal/packet", "internal/gsi", "internal/qp", "internal/hca"},
	"internal/qp":       {"internal/qp", "internal/hca", "verbs"},
	"internal/gsi":      {"internal/gsi", "internal/hca", "rdmacm"},
	"internal/cm":       {"internal/cm", "internal/hca", "rdmacm"},
	"internal/number":   {"internal/number", "internal/hca"},
	"internal/shard":    {"internal/shard", "internal/hca", "internal/driver", "verbs"},
	"internal/hca":      {"internal/hca", "internal/driver", "verbs", "rdmacm"},
	"internal/driver":   {"internal/driver", "verbs", "rdmacm"},
	"internal/device":   {"internal/device", "verbs", "rdmacm"},
	"verbs":             {"verbs", "rdmacm"},
}

const (
	// searchSeeds is how many runs of each profile the simulator has to notice.
	searchSeeds = 20
	// wantDead is the least part of the edits that must be noticed, in
	// percent, and maxEquivalent the most that may be called equivalent.
	wantDead      = 90
	maxEquivalent = 10
)

// equivalentFile lists edits without an observable effect: a
// line with the edit, a line with the reason, an empty line.
var equivalentFile = filepath.Join("testdata", "equivalent.txt")

// TestSearch makes random edits from a seed, one at a time, and requires that
// the scripts, the simulator or the tests notice nearly all. With -rewrite it
// writes docs/mutation-search.md.
func TestSearch(t *testing.T) {
	if *searchCount == 0 { // it is asked for, as it takes long
		t.Skip("-search-count is 0")
	}
	root, err := filepath.Abs("../..")
	must.Do(t, err)
	dirs := slices.Sorted(maps.Keys(searched))
	if *searchIn != "" {
		dirs = strings.Split(*searchIn, ",")
	}
	s := &search{t: t, root: root}
	s.draw(dirs)
	s.control()
	s.judgeAll()
	why := readEquivalent(t)
	page := s.page(why)
	t.Log(page)
	if *rewrite {
		must.Do(t, os.WriteFile(filepath.Join(root, "docs", "mutation-search.md"), []byte(page), 0o644))
	}
	if dead := len(s.sites) - len(s.survivors()); 100*dead < wantDead*len(s.sites) {
		t.Errorf("%d of %d edits are noticed, want %d %%", dead, len(s.sites), wantDead)
	}
}

// search is a run of the search.
type search struct {
	t       *testing.T
	root    string
	total   int // edits that there are
	sites   []site
	edits   []*edit
	rig     *rig
	scripts []string // the names of all scripts
	by      []string // the check that noticed each; empty for none

	notes   *os.File   // who noticed; nil: it is not kept
	testing sync.Mutex // held by the one that runs tests
}

// draw chooses the edits: the first in the order that the seed gives which
// compile.
func (s *search) draw(dirs []string) {
	mod := newModule(s.root)
	var all []site
	for _, dir := range dirs {
		list, err := mod.declarations(dir)
		must.Do(s.t, err)
		for _, d := range list {
			if !strings.Contains(string(d.source.text[:min(200, len(d.source.text))]), "Code generated") {
				all = append(all, sites(d)...)
			}
		}
	}
	s.total = len(all)
	rng := rand.New(rand.NewPCG(*searchSeed, 0))
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for {
		s.sites, s.edits = s.sites[:0], s.edits[:0]
		var from []int
		for i := range all {
			if len(s.sites) == *searchCount {
				break
			}
			e, err := all[i].edit()
			if err != nil || e == nil || all[i].old == nil {
				continue
			}
			s.sites, s.edits, from = append(s.sites, all[i]), append(s.edits, e), append(from, i)
		}
		bad := s.compile()
		if len(bad) == 0 {
			return
		}
		for _, n := range bad {
			all[from[n-1]].old = nil // not again
		}
	}
}

// compile builds the packages that are edited. It returns the numbers of the
// edits that do not compile.
func (s *search) compile() (bad []int) {
	var err error
	if s.rig, err = newRig(s.root, s.t.TempDir(), s.edits); err != nil {
		s.t.Fatal(err)
	}
	if s.scripts, err = s.rig.scripts(); err != nil {
		s.t.Fatal(err)
	}
	dirs := make(map[string]bool)
	for i := range s.sites {
		dir, _ := splitPlace(s.sites[i].name())
		dirs["./"+dir] = true
		if o := s.rig.alone[i+1]; o != nil && o.goCommand("build", "./"+dir) != nil {
			bad = append(bad, i+1)
		}
	}
	if err := s.rig.common.goCommand("build", slices.Sorted(maps.Keys(dirs))...); err != nil {
		refused := refused(err)
		if len(refused) == 0 {
			s.t.Fatal(err)
		}
		bad = slices.AppendSeq(bad, maps.Keys(refused))
	}
	s.t.Logf("%d edits, %d of them do not compile", len(s.sites), len(bad))
	return bad
}

// control checks that the unchanged engine passes all checks.
func (s *search) control() {
	tests := make(map[string]bool)
	for i := range s.sites {
		for _, pkg := range s.judges(i) {
			tests[pkg] = true
		}
	}
	began := time.Now()
	by, err := s.judge(s.t.Context(), 0, slices.Sorted(maps.Keys(tests)))
	if err != nil || by != "" {
		s.t.Fatalf("without an edit, this complains: %s (%v)", by, err)
	}
	s.t.Logf("without an edit, everything passes in %v", time.Since(began).Round(time.Second))
}

// judges returns the packages whose tests judge an edit.
func (s *search) judges(i int) []string {
	dir, _ := splitPlace(s.sites[i].name())
	return searched[dir]
}

// recall reads from the notes of earlier runs which check noticed each edit.
// The engine must be unchanged since then; tests may have been added.
func (s *search) recall() {
	s.by = make([]string, len(s.sites))
	if *searchNotes == "" {
		return
	}
	text, err := os.ReadFile(*searchNotes)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Fatal(err)
	}
	noted := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		by, edit, _ := strings.Cut(strings.TrimSpace(line), "\t")
		noted[edit] = by
	}
	for i := range s.sites {
		s.by[i] = noted[s.sites[i].String()]
	}
	if s.notes, err = os.OpenFile(*searchNotes, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// note records the check that noticed an edit.
func (s *search) note(i int, by string) {
	s.by[i] = by
	if s.notes != nil && by != "" {
		if _, err := fmt.Fprintf(s.notes, "%s\t%v\n", by, &s.sites[i]); err != nil {
			s.t.Error(err)
		}
	}
	s.t.Logf("%-60s %v", "["+by+"]", &s.sites[i])
}

// judgeAll judges the edits, as many at once as there are processors.
func (s *search) judgeAll() {
	s.recall()
	next := make(chan int)
	var workers sync.WaitGroup
	for range runtime.NumCPU() {
		workers.Go(func() {
			for i := range next {
				by, err := s.judge(s.t.Context(), i+1, s.judges(i))
				if err != nil {
					s.t.Errorf("%v: %v", &s.sites[i], err)
				}
				s.note(i, by)
			}
		})
	}
	for i := range s.sites {
		if s.by[i] == "" {
			next <- i
		}
	}
	close(next)
	workers.Wait()
	if s.notes != nil {
		if err := s.notes.Close(); err != nil {
			s.t.Error(err)
		}
	}
}

// judge returns the check that first notices the edit with a number: the
// scripts, the simulator, or the tests of the packages, quick ones first and
// then again with the race detector. It is empty if none does.
func (s *search) judge(ctx context.Context, number int, packages []string) (by string, err error) {
	for _, profile := range sim.ProfileNames() {
		if by, err := s.judgeProfile(ctx, number, profile); by != "" || err != nil {
			return by, err
		}
	}
	for _, pkg := range packages {
		if by, err := s.judgeTests(ctx, number, pkg); by != "" || err != nil {
			return by, err
		}
	}
	return "", nil
}

func (s *search) judgeProfile(ctx context.Context, number int, profile string) (by string, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if _, err := s.rig.of(number).program(testsOf{}); err != nil {
		return "", err
	}
	r, err := s.rig.probe(ctx, number, profile, searchSeeds, s.scripts)
	switch {
	case errors.Is(err, errHangs):
		return "simulator, " + profile + ": does not end", nil
	case err != nil:
		return "simulator, " + profile + ": crash", nil
	case len(r.failed()) > 0:
		return "script " + r.failed()[0], nil
	case r.Violation != nil:
		return fmt.Sprintf("simulator, %s: %s", profile, r.Violation.Check), nil
	}
	return "", nil
}

var failedTest = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)

// judgeTests runs the tests of a package, one at a time, because they use real
// time. A failing test must fail again, because a busy machine may make a test
// fail too.
func (s *search) judgeTests(ctx context.Context, number int, pkg string) (by string, err error) {
	s.testing.Lock()
	defer s.testing.Unlock()
	for range 2 {
		ctx, cancel := context.WithTimeout(ctx, testTimeout)
		defer cancel()
		failure, err := s.rig.test(ctx, number, testsOf{pkg: pkg}, "-test.short", "-test.timeout="+(testTimeout/2).String())
		if err != nil {
			return "", err
		}
		if failure == nil && by != "" {
			s.t.Logf("failed once only, which is not counted: %s", by)
		}
		if failure == nil {
			return "", nil
		}
		if errors.Is(failure, errHangs) || strings.Contains(failure.Error(), "test timed out") {
			return pkg + ": does not end", nil
		}
		by = pkg + ": crash"
		if m := failedTest.FindStringSubmatch(failure.Error()); m != nil {
			by = pkg + ": " + m[1]
		}
	}
	return by, nil
}

// survivors returns the indices of the unnoticed edits.
func (s *search) survivors() (list []int) {
	for i, by := range s.by {
		if by == "" {
			list = append(list, i)
		}
	}
	return list
}

// readEquivalent returns the reasons why edits are equivalent.
func readEquivalent(t *testing.T) map[string]string {
	text, err := os.ReadFile(equivalentFile)
	must.Do(t, err)
	why := make(map[string]string)
	for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		edit, reason, ok := strings.Cut(strings.TrimSpace(block), "\n")
		if block != "" && (!ok || strings.Contains(reason, "\n")) {
			t.Fatalf("%s: not a line with an edit and a line with a reason:\n%s", equivalentFile, block)
		}
		why[edit] = reason
	}
	return why
}

// page describes the outcome.
func (s *search) page(equivalent map[string]string) string {
	var b strings.Builder
	survivors := s.survivors()
	fmt.Fprintf(&b, searchHead, *searchSeed, len(s.sites), s.total, len(s.sites)-len(survivors), len(s.sites))
	counts := make(map[string][2]int)
	for i := range s.sites {
		dir, _ := splitPlace(s.sites[i].name())
		c := counts[dir]
		c[0]++
		if s.by[i] != "" {
			c[1]++
		}
		counts[dir] = c
	}
	fmt.Fprintf(&b, "| all | %d | %d |\n", len(s.sites), len(s.sites)-len(survivors))
	for _, dir := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&b, "| `%s` | %d | %d |\n", dir, counts[dir][0], counts[dir][1])
	}
	first := make(map[string]int)
	for _, by := range s.by {
		kind, _, _ := strings.Cut(strings.TrimPrefix(by, "internal/"), " ")
		first[strings.Trim(kind, ",:")]++
	}
	delete(first, "")
	b.WriteString("\nFirst to fail:")
	for _, kind := range slices.SortedFunc(maps.Keys(first), func(a, b string) int { return cmp.Or(first[b]-first[a], strings.Compare(a, b)) }) {
		fmt.Fprintf(&b, " %s %d,", kind, first[kind])
	}
	fmt.Fprintf(&b, " none %d.\n", len(survivors))
	called := 0
	for _, i := range survivors {
		name := s.sites[i].String()
		diff, err := s.edits[i].diff()
		if err != nil {
			s.t.Error(err)
		}
		reason := equivalent[name]
		if reason == "" {
			reason = "No test fails."
		} else {
			called++
			reason = "Equivalent: " + reason
		}
		fmt.Fprintf(&b, "\n## `%s`\n\n%s\n\n```diff\n%s```\n", name, reason, diff)
	}
	if called > maxEquivalent {
		s.t.Errorf("%d edits are called equivalent, want at most %d", called, maxEquivalent)
	}
	return b.String()
}

const searchHead = `# Random edits

Generated by the test of internal/mutation; do not edit. The seed %d drew %d of the %d small edits that can be made (operators,
constants, deleted statements, swapped branches); edits that do not compile were replaced. Each edit was built alone and tested by the
scripts, the simulator, and the tests of its package and of some packages above it. **%d of %d were noticed.** The others are below.

    go test -tags mutation -timeout 3h -run TestSearch ./internal/mutation -search-seed N -search-count N -rewrite

| package | edits | noticed |
|---|---|---|
`
