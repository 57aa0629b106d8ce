package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// results are the outcomes of tests, "pass", "fail" or "skip", by the
// directory of their package and their name, with a blank between.
type results map[string]string

// outcome returns the outcome of a proof.
func (r results) outcome(p *proof) string {
	if s := r[p.dir+" "+p.test]; s != "" {
		return s
	}
	return "not run"
}

// readResults reads the output of go test -json. Packages of the module are
// known by the directory that follows its path. The result of a test that ran
// several times is that of its worst run.
func readResults(name, module string) (results, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := results{}
	for d := json.NewDecoder(f); ; {
		var event struct{ Action, Package, Test string }
		switch err := d.Decode(&event); {
		case errors.Is(err, io.EOF):
			return r, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		dir, ok := strings.CutPrefix(event.Package, module)
		if !ok || event.Test == "" || event.Action != "pass" && event.Action != "fail" && event.Action != "skip" {
			continue
		}
		key := strings.TrimPrefix(dir, "/") + " " + event.Test
		if r[key] == "" || r[key] == "pass" {
			r[key] = event.Action
		}
	}
}

// verify returns the proofs that did not pass. A proof may be skipped if all its
// requirements need a feature that not every machine has.
func (r results) verify(reqs []requirement, e *evidence) (ps []string) {
	needs := map[string]string{}
	for _, req := range reqs {
		needs[req.id] = req.needs
	}
	for _, p := range e.proofs {
		everywhere := slices.ContainsFunc(p.ids, func(id string) bool { return needs[id] == "" })
		if s := r.outcome(p); s != "pass" && (s != "skip" || everywhere) {
			ps = append(ps, fmt.Sprintf("%s %s, a proof of %s: %s", p.dir, p.test, strings.Join(p.ids, ", "), s))
		}
	}
	return ps
}
