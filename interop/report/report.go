//go:build linux

package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/softhca/softhca/interop/suite"
)

// Report is the result of a run.
type Report struct {
	Date     time.Time      `json:"date"`
	Host     string         `json:"host"` // the machine that ran it
	Seconds  float64        `json:"seconds"`
	Peers    []Peer         `json:"peers"`
	Families []suite.Family `json:"-"` // the headings
	Results  []suite.Result `json:"results"`
	Repeated []string       `json:"repeated,omitempty"` // cases that failed in this run; their results are those of a later run
}

// Peer is a guest's software.
type Peer struct {
	Kernel   string            `json:"kernel"`  // version in the names of cases
	Release  string            `json:"release"` // release from uname
	Packages map[string]string `json:"packages"`
}

// Read reads a report from its JSON file, without the headings.
func Read(jsonFile string) (*Report, error) {
	r := &Report{}
	text, err := os.ReadFile(jsonFile)
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return r, nil
}

// Failed returns a regular expression that matches the cases that failed; "" if none failed.
func (r *Report) Failed() string {
	var names []string
	for i := range r.Results {
		if x := &r.Results[i]; x.Verdict == suite.Fail {
			names = append(names, regexp.QuoteMeta(x.ID))
		}
	}
	if names == nil {
		return ""
	}
	return "^(?:" + strings.Join(names, "|") + ")$"
}

// Replace replaces the results of cases by those of a later run, and lists these cases in Repeated.
func (r *Report) Replace(later []suite.Result) {
	for _, x := range later {
		at := slices.IndexFunc(r.Results, func(old suite.Result) bool { return old.ID == x.ID })
		if at < 0 {
			continue
		}
		r.Results[at] = x
		if !slices.Contains(r.Repeated, x.ID) {
			r.Repeated = append(r.Repeated, x.ID)
		}
	}
}

// Write writes the report to both files.
func (r *Report) Write(markdown, jsonFile string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err == nil {
		err = errors.Join(write(markdown, r.markdown()), write(jsonFile, append(text, '\n')))
	}
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// write replaces a file atomically: an interrupted run leaves the old one.
func write(path string, text []byte) error {
	if path == "" {
		return nil
	}
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, text) {
		return nil
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".interop-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(text)
	if err = errors.Join(err, tmp.Chmod(0o644), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name()) // the first error is the one to return
	}
	return err
}
