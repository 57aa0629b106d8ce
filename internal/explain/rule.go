package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/mad"
)

// Severity is the effect of a finding on the programs.
type Severity uint8

// The severities, from harmless to fatal.
const (
	Repaired Severity = iota // cost time only, or had no effect
	Unknown                  // the capture does not show the outcome
	Lost                     // a message is gone, or will be, and no program gets an error
	Failed                   // a program saw an error
)

var severityNames = [...]string{"repaired", "unknown", "lost", "failed"}

// String returns the name of the severity, such as "failed".
func (s Severity) String() string { return severityNames[s] }

// MarshalText implements encoding.TextMarshaler.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Side is the place to look for the cause.
type Side uint8

// The sides.
const (
	Network Side = iota
	Requester
	Responder
	Both
)

var sideNames = [...]string{"network", "requester", "responder", "both"}

// String returns the name of the side, such as "network".
func (s Side) String() string { return sideNames[s] }

// MarshalText implements encoding.TextMarshaler.
func (s Side) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Rule is one kind of finding. Its texts are printed, put into JSON, and make up the
// page of documentation.
type Rule struct {
	Name     string
	Severity Severity
	Side     Side
	Title    string
	Means    string // what it means, and the evidence
	// Requester and Responder are the completion statuses that the programs get.
	Requester, Responder Statuses
	Try                  string
}

// Statuses are completion statuses of which a program gets one: if there are several, the
// capture does not show which. An empty list means no particular status.
type Statuses []ib.WCStatus

// String names the statuses with their numbers, as programs print them.
func (s Statuses) String() string {
	names := make([]string, len(s))
	for i := range s {
		names[i] = fmt.Sprintf("%v (%d)", s[i], uint8(s[i]))
	}
	return strings.Join(names, " or ")
}

// Page returns the place of the rule in the documentation.
func (r *Rule) Page() string { return "docs/explain.md#" + r.Name }

// ErrorPages returns the places in the documentation of the statuses that the
// programs see.
func (r *Rule) ErrorPages() (pages []string) {
	return slices.Concat(r.Requester, r.Responder).pages()
}

// pages returns the places of the statuses in the documentation.
func (s Statuses) pages() (pages []string) {
	for _, status := range s {
		pages = append(pages, "docs/statuses.md#"+strings.ToLower(status.String()))
	}
	return pages
}

// rejectPage returns the place in the documentation of the reason of a REJ.
func rejectPage(r mad.RejReason) string {
	if strings.Contains(r.String(), "(") {
		return "docs/rejects.md" // the reason has no name
	}
	return fmt.Sprintf("docs/rejects.md#%d-%s", uint16(r), strings.ReplaceAll(strings.ToLower(r.String()), " ", "-"))
}

// Rules returns all rules, in the order of the documentation. The caller must
// not change them.
func Rules() []Rule { return table[:] }
