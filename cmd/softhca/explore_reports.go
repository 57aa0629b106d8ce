package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/pflag"

	"github.com/softhca/softhca/cmd/softhca/internal/page"
	"github.com/softhca/softhca/cmd/softhca/internal/text"
	"github.com/softhca/softhca/internal/explore"
)

// reportFlags are the flags of explore that name files of reports.
type reportFlags struct {
	json, junit, html string // to write
	resume, baseline  string // to read
}

func (f *reportFlags) register(s *pflag.FlagSet) {
	s.StringVar(&f.json, "json", "", "write the report, or the list, to this `file`; - is standard output")
	s.StringVar(&f.junit, "junit", "", "write the report as JUnit does to this `file`")
	s.StringVar(&f.html, "html", "", "write the report as a page for a browser to this `file`")
	s.StringVar(&f.resume, "resume", "", "take the results of this `file` of --json, and try only the other faults")
	s.StringVar(&f.baseline, "baseline", "", "compare the findings with those of this `file` of --json; only new or worse ones are errors")
}

// earlierReports are the reports that explore reads.
type earlierReports struct{ resumed, baseline *explore.Report }

// read reads the reports before the first run, so that a wrong file is known at once. args are the program and its arguments.
func (f *reportFlags) read(args []string) (r earlierReports, err error) {
	if f.resume != "" {
		if r.resumed, err = readReport(f.resume); err == nil && !slices.Equal(r.resumed.Program, args) {
			err = fmt.Errorf("%s: %w: %q", f.resume, explore.ErrOtherProgram, r.resumed.Program)
		}
		if err != nil {
			return r, fmt.Errorf("--resume: %w", err)
		}
	}
	if f.baseline != "" {
		if r.baseline, err = readReport(f.baseline); err != nil {
			return r, fmt.Errorf("--baseline: %w", err)
		}
	}
	return r, nil
}

// readReport reads a file of --json.
func readReport(name string) (*explore.Report, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r, err := explore.ReadReport(bufio.NewReader(file))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

// write prints the report, and writes it to the files of the flags.
func (f *reportFlags) write(out io.Writer, r *explore.Report) (err error) {
	if f.json == "-" {
		err = r.JSON(out)
	} else {
		err = r.Text(out)
	}
	for _, to := range []struct {
		name  string
		write func(io.Writer) error
	}{
		{f.json, r.JSON}, {f.junit, r.JUnit}, {f.html, func(w io.Writer) error { return page.WriteExplored(w, r) }},
	} {
		if to.name != "" && to.name != "-" {
			err = errors.Join(err, toFile(to.name, to.write))
		}
	}
	return err
}

// toFile writes a file. If a file with the name exists, it stays until the new one is complete.
func toFile(name string, write func(io.Writer) error) error {
	to := name
	if at, err := os.Lstat(name); err == nil && at.Mode().IsRegular() {
		to = name + ".new"
	}
	file, err := os.Create(to)
	if err != nil {
		return err
	}
	b := bufio.NewWriter(file)
	err = write(b)
	err = errors.Join(err, b.Flush(), file.Close())
	switch {
	case to == name:
		return err
	case err != nil:
		return errors.Join(err, os.Remove(to))
	}
	return os.Rename(to, name)
}

// verdictOf returns an error if the report has findings. If the report is compared with a baseline, only new and worse findings count.
func verdictOf(r *explore.Report) error {
	n, what := r.Findings(), text.Count(r.Findings(), "finding", "findings")
	if r.Baseline != nil {
		n = r.Baseline.Bad()
		what = text.Count(n, "new or worse finding", "new or worse findings")
	}
	if n == 0 {
		return nil
	}
	return errors.New(what)
}
