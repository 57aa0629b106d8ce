package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"
)

// catalogue is the content of the page.
type catalogue struct {
	reqs       []requirement
	evidence   *evidence
	exceptions []exception
	problems   []string
}

// load reads a module. Problems fail the gate; an error means that there is no
// catalogue.
func load(fsys fs.FS) (*catalogue, error) {
	reqs, err := readRequirements(fsys)
	if err != nil {
		return nil, err
	}
	e, err := findEvidence(fsys)
	if err != nil {
		return nil, err
	}
	c := &catalogue{reqs: reqs, evidence: e, problems: problems(reqs, e)}
	var more []string
	c.exceptions, more, err = exceptions(fsys, e)
	c.problems = append(c.problems, more...)
	return c, err
}

const preface = `<!-- Written by internal/tools/coverage from the tests and the scripts. Do not edit. -->
# Requirements and their proofs

A requirement that is *done* is named by the tests and the scripts that prove it: each of them fails when the requirement is
broken. ` + "`make check`" + ` runs them all and lets nothing pass in which one of them failed, was skipped or did not run. One that is
*done with* something is proved where that is installed; elsewhere its proofs are skipped, and prove nothing. One that is *open*
has no proof yet.
`

// render returns the page. With results it shows for each requirement whether
// its proofs passed; without, only their names.
func (c *catalogue) render(r results) []byte {
	var b bytes.Buffer
	b.WriteString(preface)
	done := 0
	for i := range c.reqs {
		if c.reqs[i].done {
			done++
		}
	}
	fmt.Fprintf(&b, "\n%d of %d requirements are done, by %d tests and %d scripts.\n\n",
		done, len(c.reqs), len(c.evidence.proofs)-len(c.evidence.scripts), len(c.evidence.scripts))
	fmt.Fprintln(&b, "| id | requirement | state | tests | scripts |\n|---|---|---|---|---|")
	for i := range c.reqs {
		req := &c.reqs[i]
		tests, scripts := c.evidence.of(req.id)
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", req.id, req.title, state(req, r, append(tests, scripts...)), join(tests), join(scripts))
	}
	fmt.Fprintf(&b, "\n## Completion statuses\n\nEach script shows the flow from the first packet on.\n")
	writeExceptions(&b, "status", c.exceptions)
	fmt.Fprintf(&b, "\n## Asynchronous events\n")
	writeExceptions(&b, "event", c.exceptions)
	return b.Bytes()
}

// state is done or open; with results it is pass, or the proofs that did not
// pass. A skipped proof is never a pass.
func state(req *requirement, r results, proofs []*proof) string {
	switch {
	case !req.done:
		return "open"
	case r == nil && req.needs != "":
		return doneWith + req.needs
	case r == nil:
		return "done"
	}
	var bad []string
	for _, p := range proofs {
		if s := r.outcome(p); s != "pass" {
			bad = append(bad, fmt.Sprintf("%s: %s", p.test, s))
		}
	}
	switch {
	case len(bad) == 0:
		return "pass"
	case req.needs != "":
		return "needs " + req.needs + ":<br>" + strings.Join(bad, "<br>")
	}
	return strings.Join(bad, "<br>")
}

func join(ps []*proof) string {
	var s []string
	for _, p := range ps {
		s = append(s, p.String())
	}
	return strings.Join(s, "<br>")
}
