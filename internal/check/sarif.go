package check

import (
	"encoding/json"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/softhca/softhca/internal/check/findings"
)

// site is where the documentation is.
const site = "https://github.com/softhca/softhca/blob/main/"

// The objects of SARIF 2.1.0, with the properties that are used here.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool struct {
			Driver sarifDriver `json:"driver"`
		} `json:"tool"`
		Bases   map[string]sarifArtifact `json:"originalUriBaseIds,omitempty"`
		Results []sarifResult            `json:"results"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		Version        string      `json:"version,omitempty"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID      string    `json:"id"`
		Short   sarifText `json:"shortDescription"`
		Full    sarifText `json:"fullDescription"`
		Help    sarifText `json:"help"`
		HelpURI string    `json:"helpUri"`
		Config  struct {
			Level string `json:"level"`
		} `json:"defaultConfiguration"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		RuleIndex *int            `json:"ruleIndex,omitempty"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Count     uint64          `json:"occurrenceCount"`
		Locations []sarifLocation `json:"locations,omitempty"`
		Stacks    []sarifStack    `json:"stacks,omitempty"`
	}
	sarifLocation struct {
		Physical *sarifPhysical `json:"physicalLocation,omitempty"`
		Logical  []sarifLogical `json:"logicalLocations,omitempty"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI  string `json:"uri"`
		Base string `json:"uriBaseId,omitempty"`
	}
	sarifRegion struct {
		Line int `json:"startLine"`
	}
	sarifLogical struct {
		Name string `json:"fullyQualifiedName"`
		Kind string `json:"kind"`
	}
	sarifStack struct {
		Message sarifText    `json:"message"`
		Frames  []sarifFrame `json:"frames"`
	}
	sarifFrame struct {
		Location sarifLocation `json:"location"`
		Module   string        `json:"module,omitempty"`
	}
)

// sourceRoot stands for the directory of the sources.
const sourceRoot = "%SRCROOT%"

// SARIF writes the report as SARIF 2.1.0. Source files below the directory root are relative to
// it. version is that of the command, such as v1.2.3; others, such as (devel), are left out. It blocks as w does.
func (r *Report) SARIF(w io.Writer, root, version string) error {
	if root == "/" {
		root = "" // every file is below it
	}
	s := sarif{root: root, rules: map[string]int{}}
	run := sarifRun{Results: []sarifResult{}}
	if root != "" {
		run.Bases = map[string]sarifArtifact{sourceRoot: {URI: fileURI(root) + "/"}}
	}
	driver := &run.Tool.Driver
	driver.Name, driver.InformationURI = "softhca check", site+"docs/checks.md"
	if v := strings.TrimPrefix(version, "v"); v != "" && v[0] >= '0' && v[0] <= '9' { // readers of reports compare numbers
		driver.Version = v
	}
	for i, f := range findings.All() {
		s.rules[f.Name] = i
		rule := sarifRule{ID: f.Name, Short: sarifText{f.Title}, Full: sarifText{f.Rule}, Help: sarifText{f.Fix}, HelpURI: site + page(f.Name, true)}
		rule.Config.Level = sarifLevel(f.Level)
		driver.Rules = append(driver.Rules, rule)
	}
	for _, f := range r.Findings {
		run.Results = append(run.Results, s.result(f))
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(sarifLog{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run}})
}

// sarifLevel returns the level of SARIF for that of a finding.
func sarifLevel(level string) string {
	if level == findings.Advice {
		return "note"
	}
	return "error"
}

// sarif makes the objects of a report.
type sarif struct {
	root  string         // of the sources; "" for none
	rules map[string]int // places of the rules, by their names
}

// result returns the result for a finding.
func (s *sarif) result(f *Finding) sarifResult {
	const most = 1<<31 - 1 // readers take an integer of 32 bits
	r := sarifResult{RuleID: f.Name, Level: sarifLevel(f.Level), Message: sarifText{f.Title}, Count: min(f.Count, most)}
	if f.Text != "" {
		r.Message.Text = f.Text
	}
	if i, ok := s.rules[f.Name]; ok {
		r.RuleIndex = &i
	}
	if frame := f.source(); frame != nil {
		if l := s.location(frame); l.Physical != nil || l.Logical != nil {
			r.Locations = []sarifLocation{l}
		}
	}
	for i := range f.Stacks {
		stack := sarifStack{Message: sarifText{f.Stacks[i].Title}, Frames: []sarifFrame{}}
		for j := range f.Stacks[i].Frames {
			frame := &f.Stacks[i].Frames[j]
			stack.Frames = append(stack.Frames, sarifFrame{s.location(frame), frame.Library})
		}
		r.Stacks = append(r.Stacks, stack)
	}
	return r
}

// location returns where a frame is.
func (s *sarif) location(f *Frame) (l sarifLocation) {
	if f.Function != "" {
		l.Logical = []sarifLogical{{f.Function, "function"}}
	}
	switch {
	case f.File != "":
		l.Physical = &sarifPhysical{Artifact: s.artifact(f.File)}
		if f.Line > 0 {
			l.Physical.Region = &sarifRegion{f.Line}
		}
	case f.Library != "":
		l.Physical = &sarifPhysical{Artifact: s.artifact(f.Library)}
	}
	return l
}

// artifact returns the URI of a file.
func (s *sarif) artifact(name string) sarifArtifact {
	if s.root != "" && filepath.IsAbs(name) {
		if rel, err := filepath.Rel(s.root, name); err == nil && filepath.IsLocal(rel) {
			return sarifArtifact{(&url.URL{Path: filepath.ToSlash(rel)}).String(), sourceRoot}
		}
	}
	if !filepath.IsAbs(name) {
		return sarifArtifact{(&url.URL{Path: filepath.ToSlash(name)}).String(), ""}
	}
	return sarifArtifact{fileURI(name), ""}
}

// fileURI returns the URI of an absolute path.
func fileURI(name string) string {
	return (&url.URL{Scheme: "file", Path: strings.TrimSuffix(filepath.ToSlash(name), "/")}).String()
}
