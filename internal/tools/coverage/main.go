package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// Where the requirements are read and the table is written, below the root.
const (
	requirementsFile = "docs/requirements.tsv"
	coverageFile     = "docs/coverage.md"
)

func main() {
	root := flag.String("root", ".", "root of the module")
	check := flag.Bool("check", false, "only report whether the file is up to date")
	flag.Parse()
	if err := run(*root, *check); err != nil {
		fmt.Fprintln(os.Stderr, "coverage:", err)
		os.Exit(1)
	}
}

func run(root string, check bool) error {
	want, err := render(os.DirFS(root))
	if err != nil {
		return err
	}
	name := filepath.Join(root, filepath.FromSlash(coverageFile))
	if !check {
		return os.WriteFile(name, want, 0o644)
	}
	have, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if !bytes.Equal(have, want) {
		return fmt.Errorf("%s is out of date: run make generate", coverageFile)
	}
	return nil
}
