package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/fabric/sandbox"
)

// begun is standard error that shows when the command begins to follow a
// capture.
type begun struct {
	shared
	said chan struct{}
}

func (b *begun) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("until Ctrl-C")) {
		close(b.said)
	}
	return b.shared.Write(p)
}

// TestExplainLiveHears follows the loopback interface of a network of its own while
// the demonstration provokes its error, and is interrupted.
func TestExplainLiveHears(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var out bytes.Buffer
	errs := &begun{said: make(chan struct{})}
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, []string{"explain", "--live", "lo"}, &out, errs) }()
	select {
	case <-errs.said:
	case code := <-ended:
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	_ = run(t.Context(), []string{"demo", "--measure", "0"}, io.Discard, io.Discard) // its own test judges it
	interrupt()
	if code := <-ended; code != exitFailed {
		t.Errorf("exit code %d of a connection that failed", code)
	}
	for _, want := range []string{"VERDICT failed: a WRITE was refused: remote access error", "REM_ACCESS_ERR (10)", "5 packets, 1280 bytes"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s%s", want, out.String(), errs.String())
		}
	}
	if strings.Contains(out.String(), "icrc") || strings.Contains(out.String(), "bad-length") {
		t.Errorf("packets that were right are found wrong:\n%s", out.String())
	}
}
