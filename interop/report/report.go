//go:build linux

package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
}

// Peer is a guest's software.
type Peer struct {
	Kernel   string            `json:"kernel"`  // version in the names of cases
	Release  string            `json:"release"` // release from uname
	Packages map[string]string `json:"packages"`
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
