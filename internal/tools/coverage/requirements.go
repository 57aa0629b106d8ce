package main

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// requirement is one line of the requirements file.
type requirement struct {
	id    string
	title string
	done  bool // it must have a proof; an open one must have none
	// A feature that a machine must have for the proofs to run; on others they
	// are skipped. Empty: none.
	needs string
}

// doneWith precedes the needed feature in the third column.
const doneWith = "done with "

// needsScript reports whether a requirement needs a script in addition to its
// tests: E1 to E30 and Q1 to Q24, which are about what peers exchange.
func (r *requirement) needsScript() bool {
	var n int
	kind := r.id[0]
	if _, err := fmt.Sscanf(r.id[1:], "%d", &n); err != nil {
		return false
	}
	return kind == 'E' || kind == 'Q' && n <= 24
}

// readRequirements reads lines of an id, a title and "done", "open" or "done with"
// and a feature.
func readRequirements(fsys fs.FS) ([]requirement, error) {
	rows, err := readTable(fsys, requirementsFile, 3)
	if err != nil {
		return nil, err
	}
	var reqs []requirement
	seen := map[string]bool{}
	for i, row := range rows {
		id, title, state := row[0], row[1], row[2]
		needs, limited := strings.CutPrefix(state, doneWith)
		if !limited {
			needs = ""
		}
		if !idPattern.MatchString(id) || title == "" || seen[id] || !limited && state != "done" && state != "open" {
			return nil, fmt.Errorf("%s:%d: want a new id, a title, and done, open, or done with its needs", requirementsFile, i+1)
		}
		seen[id] = true
		reqs = append(reqs, requirement{id, title, state != "open", needs})
	}
	return reqs, nil
}

// readTable reads lines of columns separated by tabs.
func readTable(fsys fs.FS, name string, columns int) ([][]string, error) {
	text, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, err
	}
	var rows [][]string
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		row := strings.Split(line, "\t")
		if len(row) != columns || slices.Contains(row, "") {
			return nil, fmt.Errorf("%s:%d: %d columns, want %d with a tab between", name, i+1, len(row), columns)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// problems lists what is wrong with the requirements and their proofs.
func problems(reqs []requirement, e *evidence) []string {
	var ps []string
	known := map[string]bool{}
	for _, r := range reqs {
		known[r.id] = true
		tests, scripts := e.of(r.id)
		n := len(tests) + len(scripts)
		switch {
		case r.done && n == 0:
			ps = append(ps, r.id+" is done, and nothing proves it")
		case r.done && r.needsScript() && len(scripts) == 0:
			ps = append(ps, r.id+" has no script")
		case !r.done && n > 0:
			ps = append(ps, fmt.Sprintf("%s is open, and %v says that it proves it", r.id, append(tests, scripts...)[0]))
		}
	}
	for _, p := range e.proofs {
		for _, id := range p.ids {
			if !known[id] {
				ps = append(ps, fmt.Sprintf("%v: there is no requirement %s", p, id))
			}
		}
	}
	return ps
}
