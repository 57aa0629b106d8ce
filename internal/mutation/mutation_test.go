//go:build mutation

package mutation

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write docs/mutations.md")

// every is the mutants of all lists.
func every() []mutant {
	return slices.Concat(responderMutants, requesterMutants, completerMutants, stateMutants, queueMutants, shardMutants, refusalMutants, connectionMutants)
}

// unbreakable are requirements without a mutant, and why.
var unbreakable = map[string]string{
	"Q21": "it says what nobody may rely on after an error; an engine that does anything there keeps it",
}

// finding is what became of a mutant.
type finding struct {
	report
	proven []string // requirements that it breaks and whose scripts noticed
}

// TestMutants breaks the engine in every way of the lists. Each must be
// noticed, by whom the list says; the engine as it is must pass the same runs.
func TestMutants(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	all := every()
	g, err := newRig(root, t.TempDir(), all)
	if err != nil {
		t.Fatal(err)
	}
	covers := control(t, g, all)
	found := make([]*finding, len(all))
	t.Run("each", func(t *testing.T) {
		for i := range all {
			if testing.Short() && i%8 != 0 {
				continue
			}
			t.Run(all[i].name, func(t *testing.T) {
				t.Parallel()
				found[i] = try(t, g, covers, i+1)
			})
		}
	})
	t.Logf("what noticed the mutants:\n%s", summary(all, found))
	if !slices.Contains(found, nil) {
		checkRequirements(t, found)
	}
}

// control runs the engine as it is. It returns what the scripts cover.
func control(t *testing.T, g *rig, all []mutant) map[string][]string {
	profiles := []string{""}
	for i := range all {
		if !slices.Contains(profiles, all[i].profile) {
			profiles = append(profiles, all[i].profile)
		}
	}
	covers := make(map[string][]string)
	for _, p := range profiles {
		r, err := g.run(t.Context(), g.common, p, 0)
		if err != nil {
			t.Fatal(err)
		}
		if v := r.Violation; v != nil {
			t.Errorf("without a mutant, profile %s seed %d: %s: %s", p, v.Seed, v.Check, v.Detail)
		}
		for _, s := range r.Scripts {
			covers[s.Name] = s.Covers
			if s.Error != "" && p == "" {
				t.Errorf("without a mutant: script %s: %s", s.Name, s.Error)
			}
		}
	}
	return covers
}

// try runs a mutant and compares what noticed it with the list.
func try(t *testing.T, g *rig, covers map[string][]string, number int) *finding {
	m := every()[number-1]
	r, err := g.try(t.Context(), &m, number)
	if err != nil {
		t.Fatal(err)
	}
	proven, complaints := m.judge(r, covers)
	for _, c := range complaints {
		t.Error(c)
	}
	return &finding{*r, proven}
}

// judge compares what noticed a mutant with the list. It returns the
// requirements whose scripts did, and what is not as it should be.
func (m *mutant) judge(r *report, covers map[string][]string) (proven, complaints []string) {
	complain := func(format string, args ...any) { complaints = append(complaints, fmt.Sprintf(format, args...)) }
	switch v := r.Violation; {
	case m.sim == "" && m.breaks == "":
		complain("nobody is to notice the mutant")
	case m.sim == "":
	case v == nil:
		complain("the simulator does not notice in %d seeds of profile %s; want one of: %s", seeds, m.profile, m.sim)
	case !slices.Contains(strings.Fields(m.sim), v.Check):
		complain("the simulator notices at seed %d by the check %s, which is not one of: %s\n%s", v.Seed, v.Check, m.sim, v.Detail)
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

// checkRequirements wants each of the requirements to be broken by a mutant
// that a script noticed.
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
	return append(ids, "C12")
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
		fmt.Fprintf(&b, "%-44s simulator: %-28s scripts for %s: %s\n", all[i].name, by, all[i].breaks, strings.Join(f.failed(), " "))
	}
	return b.String()
}

// TestJudge shows that a mutant which is not noticed, or by another check or
// script than the list says, fails the test.
func TestJudge(t *testing.T) {
	covers := map[string][]string{"s1": {"E1"}, "s2": {"E2", "E3"}}
	m := mutant{breaks: "E1 E3", sim: "order status", profile: "clean"}
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
	} {
		proven, complaints := m.judge(c.report, covers)
		text := strings.Join(complaints, "\n")
		if len(proven) != c.proven || c.want == "" && text != "" || !strings.Contains(text, c.want) {
			t.Errorf("%s: proven %v, complaints %q; want %d and %q", c.why, proven, text, c.proven, c.want)
		}
	}
}

// TestMovedSource shows that a mutant whose text is gone, is there twice or is
// not changed is refused.
func TestMovedSource(t *testing.T) {
	s := &source{"f.go", "a b a c"}
	for _, m := range []mutant{{old: "d", new: "x"}, {old: "a", new: "x"}, {old: "b", new: "b"}} {
		if at, err := m.find(s); err == nil {
			t.Errorf("%q is replaced by %q at %d", m.old, m.new, at)
		}
	}
	if at, err := (&mutant{old: "b", new: "x"}).find(s); at != 2 || err != nil {
		t.Errorf("b is at %d: %v", at, err)
	}
}

// TestList wants the page about the mutants to be up to date, and the lists
// to make sense.
func TestList(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(pageHead)
	names := make(map[string]bool)
	for _, m := range every() {
		if names[m.name] {
			t.Errorf("two mutants are called %s", m.name)
		}
		if (m.sim == "") != (m.profile == "") || m.sim == "" && m.breaks == "" {
			t.Errorf("%s: breaks %q; checks %q of profile %q", m.name, m.breaks, m.sim, m.profile)
		}
		for _, id := range strings.Fields(m.breaks) {
			if !slices.Contains(requirements(), id) {
				t.Errorf("%s: there is no requirement %s", m.name, id)
			}
		}
		names[m.name] = true
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", strings.ReplaceAll(m.name, "-", " "), strings.TrimPrefix(m.file, "internal/"),
			strings.ReplaceAll(m.breaks, " ", ", "), strings.ReplaceAll(m.sim, " ", ", "))
	}
	b.WriteString("\nWithout a seeded bug:\n\n")
	for _, id := range requirements() {
		if why, ok := unbreakable[id]; ok {
			fmt.Fprintf(&b, "- %s: %s.\n", id, why)
		}
	}
	name := filepath.Join("..", "..", "docs", "mutations.md")
	if *rewrite {
		if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, b.Bytes()) {
		t.Errorf("%s is out of date; go test -tags mutation ./internal/mutation -run TestList -rewrite writes it", name)
	}
}

const pageHead = `# Seeded bugs

Generated by the test of internal/mutation; do not edit. Each row is a bug that the test builds into the engine, one at a
time. For every requirement that it breaks, a script that covers it must fail; and one of the checks must stop the simulator,
where checks are named.

| bug | in | breaks | check of the simulator |
|---|---|---|---|
`
