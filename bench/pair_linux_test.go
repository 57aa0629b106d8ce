package main

import (
	"context"
	"strings"
	"testing"
)

// TestPairFails checks that a server that exits at once is noticed without a wait, and
// that the error has its output.
func TestPairFails(t *testing.T) {
	p := programs{softhca: "sh", seconds: 1}
	s := connects(1)
	_, err := p.measurePair(context.Background(), &s)
	if err == nil || !strings.Contains(err.Error(), "sh") || strings.Contains(err.Error(), "deadline") {
		t.Errorf("sh is no server, but: %v", err)
	}
}
