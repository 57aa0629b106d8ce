package explore

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/softhca/softhca/internal/printable"
)

// The elements of a report for JUnit.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Skipped  int          `xml:"skipped,attr"`
		Time     string       `xml:"time,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Time     string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`

		millis int64
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Time    string        `xml:"time,attr"`
		Failure *junitFailure `xml:"failure"`
		Skipped *junitSkipped `xml:"skipped"`
		Out     string        `xml:"system-out,omitempty"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",chardata"`
	}
	junitSkipped struct {
		Message string `xml:"message,attr"`
	}
)

// JUnit writes the report as JUnit does: a suite for each process, and in it a test case for each fault that was tried. A finding is a
// failure, and a fault that did not happen is skipped. It blocks as w does.
func (r *Report) JUnit(w io.Writer) error {
	all := junitSuites{Name: "softhca explore", Time: seconds(r.Millis)}
	at := map[string]int{}
	for i := range r.Results {
		one := &r.Results[i]
		n, known := at[one.Process]
		if !known {
			n = len(all.Suites)
			at[one.Process] = n
			all.Suites = append(all.Suites, junitSuite{Name: one.Process})
		}
		s, c := &all.Suites[n], r.junit(one)
		s.Cases = append(s.Cases, c)
		s.Tests++
		s.millis += one.Millis
		if c.Failure != nil {
			s.Failures++
		}
		if c.Skipped != nil {
			s.Skipped++
		}
	}
	for i := range all.Suites {
		s := &all.Suites[i]
		s.Time = seconds(s.millis)
		all.Tests, all.Failures, all.Skipped = all.Tests+s.Tests, all.Failures+s.Failures, all.Skipped+s.Skipped
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// junit returns the test case of a fault.
func (r *Report) junit(f *Result) junitCase {
	c := junitCase{Class: "softhca.explore." + f.Process, Name: printable.Line(f.Fault.String(), printable.Limit), Time: seconds(f.Millis)}
	why := printable.Line(f.Why, shownBytes)
	switch {
	case f.Verdict == Unreached:
		c.Skipped = &junitSkipped{Message: f.Verdict.Text()}
	case f.Verdict.Finding():
		var b strings.Builder
		f.text(&b, r)
		if why == "" {
			why = f.Verdict.Text()
		}
		c.Failure = &junitFailure{Message: why, Type: string(f.Verdict), Text: b.String()}
	case why != "":
		c.Out = string(f.Verdict) + ": " + why
	default:
		c.Out = string(f.Verdict)
	}
	return c
}

// seconds returns a time in seconds, as the attribute time of JUnit has it.
func seconds(millis int64) string { return fmt.Sprintf("%.3f", float64(millis)/1000) }
