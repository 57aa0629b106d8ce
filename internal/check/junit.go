package check

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/softhca/softhca/internal/check/findings"
)

// The elements of a report for JUnit.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitCase `xml:"testcase"`
		Out      string      `xml:"system-out,omitempty"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Failure *junitFailure `xml:"failure"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",chardata"`
	}
)

// JUnit writes the report as JUnit does: each error that can be found is a test case, which has
// failed if it was found. Advice is output of the suite. It blocks as w does.
func (r *Report) JUnit(w io.Writer) error {
	suite := junitSuite{Name: "softhca check"}
	var names []string
	found := map[string][]*Finding{}
	for _, f := range findings.All() {
		if f.Level == findings.Error {
			names = append(names, f.Name)
			found[f.Name] = nil
		}
	}
	var out strings.Builder
	for _, f := range r.Findings {
		if f.Level == findings.Advice {
			fmt.Fprintf(&out, "%s: %s\n", f.Name, f.details())
			continue
		}
		if _, known := found[f.Name]; !known {
			names = append(names, f.Name)
		}
		found[f.Name] = append(found[f.Name], f)
	}
	for _, name := range names {
		c := junitCase{Class: "softhca.check", Name: name}
		if all := found[name]; len(all) > 0 {
			c.Failure = failure(all)
			suite.Failures++
		}
		suite.Cases = append(suite.Cases, c)
	}
	suite.Tests = len(suite.Cases)
	fmt.Fprintf(&out, "%s\n", strings.Join(append([]string{r.Summary()}, r.Problems...), "\n"))
	suite.Out = out.String()
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(junitSuites{Tests: suite.Tests, Failures: suite.Failures, Suites: []junitSuite{suite}}); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// failure returns the failure of a test case for findings of one name.
func failure(all []*Finding) *junitFailure {
	message := all[0].Title
	if len(all) > 1 {
		message = fmt.Sprintf("%s (in %d places)", message, len(all))
	}
	var texts []string
	for _, f := range all {
		texts = append(texts, f.details())
	}
	return &junitFailure{Message: message, Type: all[0].Name, Text: strings.Join(texts, "\n")}
}

// details returns the text and the stacks of a finding, and its rule.
func (f *Finding) details() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", f.message())
	for i := range f.Stacks {
		fmt.Fprintf(&b, "%s:\n", f.Stacks[i].Title)
		for j := range f.Stacks[i].Frames {
			fmt.Fprintf(&b, "  #%-2d %v\n", j, &f.Stacks[i].Frames[j])
		}
	}
	if f.Rule != "" {
		fmt.Fprintf(&b, "rule: %s\nfix: %s\n", f.Rule, f.Fix)
	}
	return b.String()
}

// message returns the text of a finding, or else its title.
func (f *Finding) message() string {
	text := f.Text
	if text == "" {
		text = f.Title
	}
	if f.Count > 1 {
		text = fmt.Sprintf("%s (%d times)", text, f.Count)
	}
	return text
}
