package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"
)

// requirement is one line of the requirements file.
type requirement struct {
	id    string
	title string
}

// render returns the coverage table of the module in fsys.
func render(fsys fs.FS) ([]byte, error) {
	reqs, err := readRequirements(fsys)
	if err != nil {
		return nil, err
	}
	proofs, err := findProofs(fsys)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	proved := 0
	for _, r := range reqs {
		known[r.id] = true
		if len(proofs[r.id]) > 0 {
			proved++
		}
	}
	for id, by := range proofs {
		if !known[id] {
			return nil, fmt.Errorf("%s: there is no requirement %s", by[0], id)
		}
	}
	var b bytes.Buffer
	fmt.Fprintln(&b, "<!-- Written by internal/tools/coverage from the names of the tests. Do not edit. -->")
	fmt.Fprintln(&b, "# Requirements and their proofs")
	fmt.Fprintf(&b, "\n%d of %d requirements are named by a test or a script.\n\n", proved, len(reqs))
	fmt.Fprintln(&b, "| id | requirement | proved by |\n|---|---|---|")
	for _, r := range reqs {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.id, r.title, strings.Join(proofs[r.id], "<br>"))
	}
	return b.Bytes(), nil
}

func readRequirements(fsys fs.FS) ([]requirement, error) {
	text, err := fs.ReadFile(fsys, requirementsFile)
	if err != nil {
		return nil, err
	}
	var reqs []requirement
	seen := map[string]bool{}
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		id, title, ok := strings.Cut(line, "\t")
		if !ok || !idPattern.MatchString(id) || title == "" || seen[id] {
			return nil, fmt.Errorf("%s:%d: want an id that is new, a tab and a title", requirementsFile, i+1)
		}
		seen[id] = true
		reqs = append(reqs, requirement{id, title})
	}
	return reqs, nil
}
