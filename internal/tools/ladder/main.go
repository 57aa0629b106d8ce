package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", ".", "root of the module")
	flag.Parse()
	if err := run(*root); err != nil {
		fmt.Fprintln(os.Stderr, "ladder:", err)
		os.Exit(1)
	}
}

// run draws the diagrams of all pages anew.
func run(root string) error {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return err
	}
	script := func(name string) (string, error) {
		b, err := os.ReadFile(filepath.Join(root, "internal", "script", "testdata", filepath.Base(name)))
		return string(b), err
	}
	for _, name := range pages {
		have, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		want, err := update(string(have), script)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if want == string(have) {
			continue
		}
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			return err
		}
	}
	return nil
}
