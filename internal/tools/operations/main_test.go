package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestHeaderIsUpToDate shows that the header in the tree says what the engine's table says.
func TestHeaderIsUpToDate(t *testing.T) {
	want, err := header()
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(filepath.Join("..", "..", "..", output))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Errorf("%s is out of date: make generate writes it:\n%s", output, want)
	}
}
