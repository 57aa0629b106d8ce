package findings

import "strings"

// The levels of a finding.
const (
	Error  = "error"  // a bug, or a program that fails on hardware
	Advice = "advice" // legal, but rarely wanted
)

// Finding is a sort of bug.
type Finding struct {
	Name   string // in lower case, with hyphens
	Level  string // Error or Advice
	Title  string // one sentence about the bug
	Rule   string // what a program must do
	Source string // where the rule stands
	Fix    string // how to repair the program
}

// All returns all findings, the errors first.
func All() []Finding {
	all := make([]Finding, 0, len(errors)+len(advice))
	all = append(append(all, errors...), advice...)
	for i := range all {
		all[i].Level = Error
		if i >= len(errors) {
			all[i].Level = Advice
		}
	}
	return all
}

// Find returns the finding with a name, and false if there is none.
func Find(name string) (Finding, bool) {
	for _, f := range All() {
		if f.Name == name {
			return f, true
		}
	}
	return Finding{}, false
}

// Constant returns the name of the finding in C: in upper case, with underscores.
func (f *Finding) Constant() string { return strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_")) }
