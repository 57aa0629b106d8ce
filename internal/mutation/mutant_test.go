//go:build mutation

package mutation

import (
	"errors"
	"fmt"
	"go/ast"
	"strings"

	"github.com/softhca/softhca/internal/mutation/pattern"
)

// mutant is one bug.
type mutant struct {
	name string // what is wrong, in a few words with hyphens
	in   string // a package and its function or variable: internal/qp.retry; if several have the name, with the receiver: mad.RTU.Put
	old  string // a pattern that is found there once
	new  string // and is replaced by this; if empty, it is deleted

	// breaks are the requirements that no longer hold: for each, a script that
	// covers it must fail.
	breaks string
	// sim are the simulator's checks that may notice, any of them; if empty,
	// the simulator is not asked.
	sim     string
	profile string // of the simulator
	// test is a package and one of its tests, which must fail:
	// internal/hca TestChurn. If empty, no test is asked.
	test string
	tags string // build tags of the test
}

// bugsIn returns mutants of a package that were given without it: it completes their
// places, and the tests that name no package.
func bugsIn(pkg string, bugs []mutant) []mutant {
	for i := range bugs {
		m := &bugs[i]
		m.in = pkg + "." + m.in
		if m.test != "" && !strings.Contains(m.test, " ") {
			m.test = pkg + " " + m.test
		}
	}
	return bugs
}

// edit finds the declaration that the mutant changes and changes a copy of it.
func (m *mutant) edit(mod *module) (*edit, error) {
	p, err := pattern.Parse(m.old, m.new)
	if err != nil {
		return nil, err
	}
	dir, _ := splitPlace(m.in)
	all, err := mod.declarations(dir)
	if err != nil {
		return nil, err
	}
	var here []*declaration
	var found []*pattern.Match
	var at *declaration
	for _, d := range all {
		if !d.named(m.in) {
			continue
		}
		here = append(here, d)
		for _, f := range p.Find(d.node) {
			found, at = append(found, f), d
		}
	}
	switch {
	case len(here) == 0:
		return nil, fmt.Errorf("there is no %s; %s", m.in, elsewhere(p, all))
	case len(found) == 0:
		return nil, fmt.Errorf("%s has not what the mutant changes: %s\n%s; or find what does this now and bring the mutant up to date",
			m.in, m.old, elsewhere(p, all))
	case len(found) > 1:
		var where []string
		for _, f := range found {
			where = append(where, at.source.fset.Position(f.Pos()).String())
		}
		return nil, fmt.Errorf("%s has what the mutant changes %d times (%s): %s\nname the receiver of the function, or let the pattern say more",
			m.in, len(found), strings.Join(where, ", "), m.old)
	}
	changed, err := found[0].Replaced()
	if err != nil {
		return nil, err
	}
	if pattern.Equal(at.node, changed) {
		return nil, errors.New("nothing changes")
	}
	return &edit{at, changed}, nil
}

// elsewhere returns the places of a pattern in the package.
func elsewhere(p *pattern.Pattern, all []*declaration) string {
	var names []string
	for _, d := range all {
		if n := len(p.Find(d.node)); n > 0 {
			names = append(names, fmt.Sprintf("%s (%d times)", d.name(), n))
		}
	}
	if len(names) == 0 {
		return "it is nowhere in the package"
	}
	return "it is in " + strings.Join(names[:min(len(names), 5)], ", ") + ": name that"
}

// edit is a declaration and a changed copy of it.
type edit struct {
	*declaration
	changed ast.Node
}
