package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", ".", "root of the module")
	flag.Parse()
	if err := run(*root); err != nil {
		fmt.Fprintln(os.Stderr, "jsonpage:", err)
		os.Exit(1)
	}
}

// run writes the page.
func run(root string) error {
	p := &page{source: newSource(os.DirFS(root)), known: map[string]bool{}}
	text := p.write(outputs)
	if len(p.problems) > 0 {
		return errors.Join(p.problems...)
	}
	return os.WriteFile(filepath.Join(root, "docs", "json.md"), []byte(text), 0o644)
}
