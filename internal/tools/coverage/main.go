package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// The files of the requirements and of the table, below the root.
const (
	requirementsFile = "docs/requirements.tsv"
	coverageFile     = "docs/coverage.md"
)

// modulePath is what import paths of the module begin with.
const modulePath = "github.com/softhca/softhca"

func main() {
	root := flag.String("root", ".", "root of the module")
	file := flag.String("results", "", "output of go test -json: verify that every proof passed, and print the page with that")
	flag.Parse()
	var err error
	if *file != "" {
		err = verify(os.Stdout, *root, *file)
	} else {
		err = run(*root)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "coverage:", err)
		os.Exit(1)
	}
}

// run writes the page. It fails for problems of the catalogue, after it has
// written the page.
func run(root string) error {
	c, err := load(os.DirFS(root))
	if err != nil {
		return err
	}
	name := filepath.Join(root, filepath.FromSlash(coverageFile))
	return errors.Join(os.WriteFile(name, c.render(nil), 0o644), c.err())
}

// err returns the problems as one error.
func (c *catalogue) err() error {
	if len(c.problems) == 0 {
		return nil
	}
	return fmt.Errorf("%d problems:\n%s", len(c.problems), strings.Join(c.problems, "\n"))
}

// verify prints the page with the results of the tests and fails unless every
// proof ran and passed.
func verify(w io.Writer, root, file string) error {
	c, err := load(os.DirFS(root))
	if err != nil {
		return err
	}
	r, err := readResults(file, modulePath)
	if err != nil {
		return err
	}
	if _, err := w.Write(c.render(r)); err != nil {
		return err
	}
	c.problems = append(c.problems, r.verify(c.reqs, c.evidence)...)
	return c.err()
}
