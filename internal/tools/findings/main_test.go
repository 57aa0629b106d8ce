package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// TestOutputIsUpToDate shows that the header and the page in the tree say what the table says.
func TestOutputIsUpToDate(t *testing.T) {
	for file, want := range map[string][]byte{headerFile: header(), pageFile: page()} {
		have, err := os.ReadFile(filepath.Join("..", "..", "..", file))
		must.Do(t, err)
		if !bytes.Equal(have, want) {
			t.Errorf("%s is out of date: make generate writes it", file)
		}
	}
}
