//go:build mutation

package mutation

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/must"
)

var (
	rewrite = flag.Bool("rewrite", false, "write docs/mutations.md")
	share   = flag.Int("share", -1, "seed only the bugs of a share, 0 to 7, each an eighth of the lists; -1: all")
)

// shares is how many parts the lists have for the flag -share.
const shares = 8

// wanted reports whether the flag -share leaves the mutant of index i of its list.
func wanted(i int) bool { return *share < 0 || i%shares == *share%shares }

// every is the mutants of all lists.
func every() []mutant {
	return slices.Concat(responderMutants, requesterMutants, completerMutants, stateMutants, queueMutants, extendedMutants, shardMutants,
		refusalMutants, connectionMutants, churnMutants, registrationMutants, strangerMutants, recoveryMutants, coalesceMutants, companyMutants, restrackMutants, eventlogMutants, insideMutants, clocksMutants, pathMutants, portMutants, altPathMutants,
		datagramMutants, xrcMutants, measureMutants, channelMutants, brokerMutants, ucmMutants, explainMutants, delayMutants, fullMutants, secureMutants, challengeMutants, floodMutants,
		windowMutants, orderedMutants, nearMutants, socketMutants, nastyMutants, goCheckMutants, exploreMutants)
}

const (
	// seeds is how many runs the simulator has to notice a mutant.
	seeds = 200
	// probeTimeout and testTimeout bound a run of the probe and of a test.
	probeTimeout = time.Minute
	testTimeout  = 2 * time.Minute
)

// unbreakable are requirements without a mutant, and why.
var unbreakable = map[string]string{
	"Q21": "it says what nobody may rely on after an error; an engine that does anything there keeps it",
}

// finding is the outcome of a mutant.
type finding struct {
	report
	proven []string // requirements that it breaks and whose scripts noticed
}

// TestMutants breaks the engine in every way of the lists. Each must be
// noticed, by the check that the list names; the unchanged engine must pass the
// same runs.
func TestMutants(t *testing.T) {
	root, err := filepath.Abs("../..")
	must.Do(t, err)
	all := every()
	g := rigOf(t, root, all)
	var asked []mutant
	for i := range all {
		if wanted(i) {
			asked = append(asked, all[i])
		}
	}
	covers := control(t, g, asked)
	found := make([]*finding, len(all))
	t.Run("each", func(t *testing.T) {
		for i := range all {
			if !wanted(i) {
				continue
			}
			t.Run(all[i].name, func(t *testing.T) {
				t.Parallel()
				found[i] = try(t, g, covers, i+1)
			})
		}
	})
	controlSeeds(t, g, all, found)
	t.Logf("what noticed the mutants:\n%s", summary(all, found))
	if !slices.Contains(found, nil) {
		checkRequirements(t, found)
	}
}

// rigOf makes the edits of all mutants and builds the probe with them.
func rigOf(t *testing.T, root string, all []mutant) *rig {
	mod := newModule(root)
	edits := make([]*edit, len(all))
	for i := range all {
		var err error
		if edits[i], err = all[i].edit(mod); err != nil {
			t.Errorf("mutant %s: %v", all[i].name, err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	g, err := newRig(root, t.TempDir(), edits)
	must.Do(t, err)
	if _, err := g.common.program(testsOf{}); err != nil {
		for n, why := range refused(err) {
			t.Errorf("mutant %s: its replacement does not compile; bring it up to date: %s", all[n-1].name, why)
		}
		t.Fatal(err)
	}
	return g
}

// control runs scripts and tests on the unchanged engine. It returns the requirements that
// the scripts cover.
func control(t *testing.T, g *rig, all []mutant) map[string][]string {
	controls := []mutant{{}} // of each test one, and one of the scripts
	for _, m := range all {
		if !slices.ContainsFunc(controls, func(c mutant) bool { return c.test == m.test }) {
			controls = append(controls, mutant{test: m.test, tags: m.tags})
		}
	}
	scripts, err := g.scripts()
	must.Do(t, err)
	covers := make(map[string][]string)
	for _, c := range controls {
		r, err := c.run(t.Context(), g, 0, scripts)
		must.Do(t, err)
		if r.Test != nil && r.Test.Error != "" {
			t.Errorf("without a mutant: %s: %s", c.test, r.Test.Error)
		}
		for _, s := range r.Scripts {
			covers[s.Name] = s.Covers
			if s.Error != "" {
				t.Errorf("without a mutant: script %s: %s", s.Name, s.Error)
			}
		}
	}
	return covers
}

// controlSeeds simulates the unchanged engine, with each profile up to the last seed at
// which a mutant was noticed: there may be no violation without the mutants.
func controlSeeds(t *testing.T, g *rig, all []mutant, found []*finding) {
	last := make(map[string]uint64)
	for i, f := range found {
		if f != nil && f.Violation != nil {
			last[all[i].profile] = max(last[all[i].profile], f.Violation.Seed)
		}
	}
	for _, profile := range slices.Sorted(maps.Keys(last)) {
		r, err := g.probe(t.Context(), 0, profile, int(last[profile]), nil)
		must.Do(t, err)
		if v := r.Violation; v != nil {
			t.Errorf("without a mutant, profile %s seed %d: %s: %s", profile, v.Seed, v.Check, v.Detail)
		}
	}
}

// try runs a mutant and compares what noticed it with the list.
func try(t *testing.T, g *rig, covers map[string][]string, number int) *finding {
	m := every()[number-1]
	r, err := m.run(t.Context(), g, number, m.scripts(covers))
	must.Do(t, err)
	proven, complaints := m.judge(r, covers)
	for _, c := range complaints {
		t.Error(c)
	}
	return &finding{*r, proven}
}

// scripts returns the names of the scripts that cover a requirement that the mutant breaks.
func (m *mutant) scripts(covers map[string][]string) (names []string) {
	breaks := strings.Fields(m.breaks)
	for _, name := range slices.Sorted(maps.Keys(covers)) {
		if slices.ContainsFunc(covers[name], func(id string) bool { return slices.Contains(breaks, id) }) {
			names = append(names, name)
		}
	}
	return names
}

// run runs the scripts, the seeds and the test that must kill a mutant. Number selects the
// mutant in the binary.
func (m *mutant) run(ctx context.Context, g *rig, number int, scripts []string) (*report, error) {
	r := new(report)
	if m.breaks != "" || m.sim != "" || m.test == "" {
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		var err error
		if r, err = g.probe(ctx, number, m.profile, seeds, scripts); err != nil {
			return nil, err
		}
	}
	if m.test == "" {
		return r, nil
	}
	r.Test = &outcome{Name: m.test}
	tries := 1
	if number != 0 {
		tries = races
	}
	for range tries {
		if failure, err := m.ask(ctx, g, number); failure != nil || err != nil {
			if failure != nil {
				r.Test.Error = failure.Error()
			}
			return r, err
		}
	}
	return r, nil
}

// races is how often a test is asked that does not notice a mutant: what two
// threads must do at once may not come about at the first time.
const races = 4

// ask runs the mutant's test.
func (m *mutant) ask(ctx context.Context, g *rig, number int) (failure, err error) {
	pkg, name, _ := strings.Cut(m.test, " ")
	ctx, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	return g.test(ctx, number, testsOf{pkg, m.tags}, "-test.run=^"+name+"$")
}

// judge compares what noticed a mutant with the list. It returns the
// requirements whose scripts did, and what is not as it should be.
func (m *mutant) judge(r *report, covers map[string][]string) (proven, complaints []string) {
	complain := func(format string, args ...any) { complaints = append(complaints, fmt.Sprintf(format, args...)) }
	switch v := r.Violation; {
	case m.sim == "" && m.breaks == "" && m.test == "":
		complain("nobody is to notice the mutant")
	case m.sim == "":
	case v == nil:
		complain("the simulator does not notice in %d seeds of profile %s; want one of: %s", seeds, m.profile, m.sim)
	case !slices.Contains(strings.Fields(m.sim), v.Check):
		complain("the simulator notices at seed %d by the check %s, which is not one of: %s\n%s", v.Seed, v.Check, m.sim, v.Detail)
	}
	if r.Test != nil && r.Test.Error == "" {
		complain("%s passes", m.test)
	}
	failed := r.failed()
	for _, id := range strings.Fields(m.breaks) {
		if slices.ContainsFunc(failed, func(name string) bool { return slices.Contains(covers[name], id) }) {
			proven = append(proven, id)
		} else {
			complain("it breaks %s, and no script that covers %s fails; these do: %v", id, id, failed)
		}
	}
	return proven, complaints
}

// checkRequirements checks that each requirement is broken by a mutant that a
// script noticed.
func checkRequirements(t *testing.T, found []*finding) {
	proven := make(map[string]bool)
	for _, f := range found {
		for _, id := range f.proven {
			proven[id] = true
		}
	}
	for _, id := range requirements() {
		_, exempt := unbreakable[id]
		switch {
		case exempt && proven[id]:
			t.Errorf("%s is said to be unbreakable, and a mutant breaks it", id)
		case !exempt && !proven[id]:
			t.Errorf("no mutant breaks %s and is noticed by a script that covers it", id)
		}
	}
}

// requirements are those of queue pairs and of the connection manager that
// scripts cover.
func requirements() []string {
	var ids []string
	for n := range 30 {
		ids = append(ids, fmt.Sprint("E", n+1))
	}
	for n := range 24 {
		ids = append(ids, fmt.Sprint("Q", n+1))
	}
	for n := range 10 {
		ids = append(ids, fmt.Sprint("C", n+1))
	}
	return append(ids, "C12", "C14", "L1", "L2", "M1", "M2", "M7", "M5", "M6", "M4", "V15", "V17", "V18", "Q35", "Q36", "Q37", "Q38")
}

// summary shows what noticed each mutant that was tried.
func summary(all []mutant, found []*finding) string {
	var b strings.Builder
	for i, f := range found {
		if f == nil {
			continue
		}
		by := "not asked"
		switch v := f.Violation; {
		case v != nil:
			by = fmt.Sprintf("%s (%s, seed %d)", v.Check, all[i].profile, v.Seed)
		case all[i].profile != "":
			by = "no"
		}
		fmt.Fprintf(&b, "%-44s simulator: %-28s scripts for %s: %s; test: %s\n", all[i].name, by, all[i].breaks,
			strings.Join(f.failed(), " "), all[i].test)
	}
	return b.String()
}

// TestJudge shows that a mutant which is not noticed, or by another check or
// script than the list says, fails the test.
func TestJudge(t *testing.T) {
	covers := map[string][]string{"s1": {"E1"}, "s2": {"E2", "E3"}}
	m := mutant{breaks: "E1 E3", sim: "order status", profile: "clean", test: "p TestX"}
	seen := func(check string, scripts ...string) *report {
		r := new(report)
		if check != "" {
			r.Violation = &violation{Check: check, Seed: 7}
		}
		for _, name := range []string{"s1", "s2"} {
			o := outcome{Name: name}
			if slices.Contains(scripts, name) {
				o.Error = "failed"
			}
			r.Scripts = append(r.Scripts, o)
		}
		return r
	}
	for _, c := range []struct {
		why    string
		report *report
		proven int
		want   string // in the complaint; empty: there is none
	}{
		{"all as it should be", seen("status", "s1", "s2"), 2, ""},
		{"a mutant that survives the simulator", seen("", "s1", "s2"), 2, "does not notice"},
		{"a mutant that another check stops", seen("memory", "s1", "s2"), 2, "is not one of"},
		{"a requirement whose scripts pass", seen("order", "s1"), 1, "it breaks E3"},
		{"a test that passes", &report{Violation: &violation{Check: "order"}, Scripts: seen("", "s1", "s2").Scripts, Test: &outcome{}}, 2, "TestX passes"},
	} {
		proven, complaints := m.judge(c.report, covers)
		text := strings.Join(complaints, "\n")
		if len(proven) != c.proven || c.want == "" && text != "" || !strings.Contains(text, c.want) {
			t.Errorf("%s: proven %v, complaints %q; want %d and %q", c.why, proven, text, c.proven, c.want)
		}
	}
}

// TestMovedSource shows that a mutant is refused, with what to do, if what it
// changes is gone, has moved, is there twice or is not changed.
func TestMovedSource(t *testing.T) {
	mod := newModule("testdata")
	for _, c := range []struct {
		why  string
		m    mutant
		want string // in the error; empty: there is none
	}{
		{"found", mutant{in: "moved.first", old: "$q.a()"}, ""},
		{"found in a method", mutant{in: "moved.one.again", old: "$q.a()"}, ""},
		{"found in one of two methods of a name", mutant{in: "moved.again", old: "$q.b()"}, ""},
		{"found in a variable", mutant{in: "moved.table", old: "{1, $x}", new: "{2, $x}"}, ""},
		{"the function is gone", mutant{in: "moved.gone", old: "$q.only()"}, "there is no moved.gone; it is in moved.two.again (1 times): name that"},
		{"it has moved", mutant{in: "moved.first", old: "$q.only()"}, "it is in moved.two.again"},
		{"it is nowhere", mutant{in: "moved.first", old: "$q.never()"}, "nowhere in the package"},
		{"it is there twice", mutant{in: "moved.again", old: "$q.a()"}, "2 times"},
		{"nothing changes", mutant{in: "moved.first", old: "$q.a()", new: "$q.a()"}, "nothing changes"},
		{"it is not Go", mutant{in: "moved.first", old: "if"}, "pattern"},
	} {
		_, err := c.m.edit(mod)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want an error with %q", c.why, err, c.want)
		}
	}
}

// TestGrafts shows what is built with others and what alone, and that the
// compiler's complaint names the edit.
func TestGrafts(t *testing.T) {
	mod := newModule("testdata")
	for _, c := range []struct {
		m     mutant
		alone bool
	}{
		{mutant{in: "moved.first", old: "$q.a()"}, false},
		{mutant{in: "moved.table", old: "{1, $x}", new: "{2, $x}"}, false},
		{mutant{in: "moved.variadic", old: "return n", new: "return n[1:]"}, false},
		{mutant{in: "moved.blank", old: "return 1", new: "return 2"}, true},
		{mutant{in: "moved.generic", old: "return 1", new: "return 2"}, true},
		{mutant{in: "moved.constant", old: "1", new: "2"}, true},
	} {
		e, err := c.m.edit(mod)
		must.Do(t, err)
		text, err := e.file()
		if err != nil || bytes.Equal(text, e.source.text) {
			t.Errorf("%s: the file alone does not change: %v", c.m.in, err)
		}
		g, err := e.graft(7)
		if err != nil || (g == nil) != c.alone {
			t.Errorf("%s: graft %v (%v), want it alone: %t", c.m.in, g, err, c.alone)
		}
		if g == nil {
			continue
		}
		if text := graftAll([]*graft{g})["moved/moved.go"]; !bytes.Contains(text, []byte("line mutant7.go:1")) {
			t.Errorf("%s: the graft does not say whose it is:\n%s", c.m.in, text)
		}
	}
	err := errors.New("mutant12.go:3: declared and not used: x\nqp/mutant5.go:1:1: y")
	if bad := refused(err); len(bad) != 2 || bad[12] == "" || bad[5] == "" {
		t.Errorf("the compiler refuses %v, want 5 and 12", bad)
	}
}

// TestList checks that the page about the mutants is up to date, and that the
// lists are valid.
func TestList(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(pageHead)
	names := make(map[string]bool)
	mod := newModule(filepath.Join("..", ".."))
	for _, m := range every() {
		if _, err := m.edit(mod); err != nil {
			t.Errorf("mutant %s: %v", m.name, err)
		}
		if names[m.name] {
			t.Errorf("two mutants are called %s", m.name)
		}
		if (m.sim == "") != (m.profile == "") || m.sim == "" && m.breaks == "" && m.test == "" {
			t.Errorf("%s: breaks %q; checks %q of profile %q; test %q", m.name, m.breaks, m.sim, m.profile, m.test)
		}
		for _, id := range strings.Fields(m.breaks) {
			if !slices.Contains(requirements(), id) {
				t.Errorf("%s: there is no requirement %s", m.name, id)
			}
		}
		names[m.name] = true
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s |\n", strings.ReplaceAll(m.name, "-", " "), strings.TrimPrefix(m.in, "internal/"),
			strings.ReplaceAll(m.breaks, " ", ", "), strings.ReplaceAll(m.sim, " ", ", "), strings.TrimPrefix(strings.TrimSpace(m.test+" "+m.tags), "internal/"))
	}
	for _, m := range everyC() {
		if names[m.name] {
			t.Errorf("two mutants are called %s", m.name)
		}
		if _, err := m.edit(filepath.Join("..", "..")); err != nil {
			t.Errorf("mutant %s: %v", m.name, err)
		}
		names[m.name] = true
	}
	b.WriteString("\nWithout a seeded bug:\n\n")
	for _, id := range requirements() {
		if why, ok := unbreakable[id]; ok {
			fmt.Fprintf(&b, "- %s: %s.\n", id, why)
		}
	}
	b.WriteString(pageC)
	for _, m := range everyC() {
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", strings.ReplaceAll(m.name, "-", " "), strings.TrimPrefix(m.in, "capi/"), m.sees)
	}
	name := filepath.Join("..", "..", "docs", "mutations.md")
	if *rewrite {
		must.Do(t, os.WriteFile(name, b.Bytes(), 0o644))
	}
	have, err := os.ReadFile(name)
	must.Do(t, err)
	if !bytes.Equal(have, b.Bytes()) {
		t.Errorf("%s is out of date; go test -tags mutation ./internal/mutation -run TestList -rewrite writes it", name)
	}
}

const pageHead = `# Seeded bugs

Generated by the test of internal/mutation; do not edit. Each row is a bug that the test builds into the engine, one at a
time. For every requirement that it breaks, a script that covers it must fail; and one of the checks must stop the simulator,
where checks are named; and the test must fail, where one is named.

| bug | in | breaks | check of the simulator | test |
|---|---|---|---|---|
`

const pageC = `
## In the libraries in C

Each row is a bug of one line in the C library, in its engine or in the preload library. A test of capi/test or capi/preload/check must fail.

| bug | in | what a program sees |
|---|---|---|
`
