package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync/atomic"
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
// the demonstration, which uses UDP, provokes its error, and is interrupted.
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
	if strings.Contains(errs.String(), "shared memory") {
		t.Errorf("the demonstration does not use UDP: %s", errs.String())
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

// TestExplainLiveIsBlind follows the loopback interface while two adapters share memory, as they do by
// default. The command says what it does not see, and what to do.
func TestExplainLiveIsBlind(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	errs := &begun{said: make(chan struct{})}
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, []string{"explain", "--live", "lo"}, io.Discard, errs) }()
	<-errs.said
	var said shared
	if code := run(t.Context(), []string{"perf", "write", "--local", "--explain", "--duration", "2s"}, io.Discard, &said); code != 0 {
		t.Errorf("perf: exit code %d: %s", code, said.String())
	}
	interrupt()
	<-ended
	if want := "not shown: 1 pair of processes on this host exchanged packets through shared memory, which no interface sees; to follow them, start both programs with --wire udp"; !strings.Contains(errs.String(), want) {
		t.Errorf("no %q in %s", want, errs.String())
	}
	if want := " took shared memory: tcpdump does not see them"; !strings.Contains(said.String(), want) {
		t.Errorf("no %q in %s", want, said.String())
	}
}

// TestCountPairs counts pairs that are there at the beginning, meanwhile, and at the end.
func TestCountPairs(t *testing.T) {
	for _, all := range [][3]int{{3, 1, 1}, {1, 3, 1}, {1, 1, 3}} {
		var phase atomic.Int32
		seen := make(chan bool, 1000)
		stop := countPairs(func() int {
			n := all[phase.Load()]
			seen <- n == all[1]
			return n
		})
		if phase.Store(1); all[1] == 3 {
			for !<-seen {
			}
		}
		phase.Store(2)
		if n := stop(); n != 3 {
			t.Errorf("%v: %d pairs, want 3", all, n)
		}
	}
}
