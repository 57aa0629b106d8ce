package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// TestHeaderIsUpToDate shows that the header in the tree says what the engine's table says.
func TestHeaderIsUpToDate(t *testing.T) {
	want, err := header()
	must.Do(t, err)
	have, err := os.ReadFile(filepath.Join("..", "..", "..", output))
	must.Do(t, err)
	if !bytes.Equal(have, want) {
		t.Errorf("%s is out of date: make generate writes it:\n%s", output, want)
	}
}
