package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/launch"
	"github.com/softhca/softhca/cmd/softhca/internal/text"
	"github.com/softhca/softhca/internal/check"
	"github.com/softhca/softhca/internal/wording"
)

// The words of --check.
const (
	checkErrors = "error"
	checkAdvice = "advice"
	checkFatal  = "fatal" // the library ends the process at its first error, with exit code 86
)

// checkWords returns the words of --check.
func checkWords() []string { return []string{checkErrors, checkAdvice, checkFatal} }

// The suffixes of the files of --report.
const (
	reportJSON  = ".json"
	reportJUnit = ".xml"
	reportSARIF = ".sarif"
)

// reportSuffixes returns the suffixes of the files of --report.
func reportSuffixes() []string { return []string{reportJSON, reportJUnit, reportSARIF} }

// maxCheckFiles is the maximum number of files of --suppress, and of --report.
const maxCheckFiles = 64

// checking has the options of run that are about --check.
type checking struct {
	words    string   // of checkWords, separated by commas; "" if the program is not checked
	reports  []string // files to write
	suppress []string // files to read
}

// flags adds the options to a command.
func (c *checking) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.words, "check", "",
		"find wrong use of the verbs, and report it when the program has ended; `words` after =, separated by commas: error, the default; advice: also legal use that is rarely wanted; fatal: end the process at its first error")
	f.Lookup("check").NoOptDefVal = checkErrors
	f.StringArrayVar(&c.reports, "report", nil, "with --check: also write the report to this `file`, as JSON (.json), JUnit (.xml) or SARIF (.sarif); may be repeated")
	f.StringArrayVar(&c.suppress, "suppress", nil, "with --check: hide the findings that this `file` names; may be repeated")
}

// set reports whether the program is to be checked.
func (c *checking) set() bool { return c.words != "" }

// checkOptions checks the options. args are the program and its arguments.
func (c *checking) checkOptions(args []string) error {
	if !c.set() {
		if len(c.reports)+len(c.suppress) > 0 {
			return usagef("--report and --suppress are about the report of --check: add --check")
		}
		return nil
	}
	for w := range strings.SplitSeq(c.words, ",") {
		if !slices.Contains(checkWords(), w) {
			return usagef("--check=%s: %q: %s", c.words, w, text.Want(w, checkWords()))
		}
	}
	if _, err := exec.LookPath(args[0]); err != nil && slices.Contains(checkWords(), args[0]) {
		return usagef("there is no program %s: write --check=%s, with =", args[0], args[0])
	}
	if len(c.reports) > maxCheckFiles || len(c.suppress) > maxCheckFiles {
		return usagef("--report and --suppress can be repeated %d times at most", maxCheckFiles)
	}
	for _, name := range c.reports {
		if !slices.Contains(reportSuffixes(), filepath.Ext(name)) {
			return usagef("--report %s: want a name that ends in %s", name, wording.Or(reportSuffixes()))
		}
		if err := checkCapture("--report", name); err != nil {
			return err
		}
	}
	return nil
}

// start makes the directory for the records of the program's processes, and adds the variables that
// name it. The caller removes the directory.
func (c *checking) start(o *launch.Options) (*checked, error) {
	k := &checked{reports: c.reports, options: check.Options{Advice: slices.Contains(strings.Split(c.words, ","), checkAdvice)}}
	for _, name := range c.suppress {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("--suppress %s: %w: name a file with a finding and a pattern on each line", name, cause(err))
		}
		all, err := check.ReadSuppressions(f)
		_ = f.Close()
		if err != nil {
			return nil, usagef("--suppress %s: %w", name, err)
		}
		k.options.Suppress = append(k.options.Suppress, all...)
	}
	dir, err := os.MkdirTemp("", "softhca-check-*")
	if err == nil {
		k.dir, err = filepath.Abs(dir) // the program may change its directory
	}
	if err != nil {
		return nil, fmt.Errorf("create a directory for findings: %w; set TMPDIR to use another one", err)
	}
	o.Set = append(o.Set, launch.Var{Name: launch.CheckEnv, Value: c.words}, launch.Var{Name: launch.CheckDirEnv, Value: k.dir})
	return k, nil
}

// checked is a run of a checked program.
type checked struct {
	dir     string // of the records
	options check.Options
	reports []string // files to write
}

// end prints the report and writes its files. err is the outcome of the run, which is that of end unless
// it is nil and the report fails.
func (k *checked) end(w io.Writer, err error) error {
	if errors.As(err, new(*launch.Error)) {
		return err // there was no program to check
	}
	r, failed := check.Read(k.dir, k.options)
	if failed == nil {
		failed = r.Text(w, colored(w))
		for _, name := range k.reports {
			if e := writeCheckReport(r, name); e != nil {
				failed = errors.Join(failed, fmt.Errorf("--report %s: %w", name, cause(e)))
			}
		}
	}
	if err != nil && failed != nil {
		say(w, "softhca: run: %v", failed)
		return err
	}
	if failed != nil {
		return fmt.Errorf("run: %w", failed)
	}
	return err
}

// writeCheckReport writes a report to a file, in the format that the suffix names.
func writeCheckReport(r *check.Report, name string) error {
	root, err := os.Getwd()
	if err != nil {
		root = "" // all paths in the report stay absolute
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	b := bufio.NewWriter(f)
	switch filepath.Ext(name) {
	case reportJSON:
		err = r.JSON(b)
	case reportJUnit:
		err = r.JUnit(b)
	default:
		err = r.SARIF(b, root, newVersion().Version)
	}
	return errors.Join(err, b.Flush(), f.Close())
}

// runBeside runs the program as a child. If the exit code of the program is not 0, it is that of the
// error.
func runBeside(ctx context.Context, o *launch.Options) error {
	code, err := o.RunBeside(ctx)
	if err == nil && code != 0 {
		err = &exitError{code, fmt.Errorf("run: %s ended with exit code %d", o.Program[0], code)}
	}
	return err
}
