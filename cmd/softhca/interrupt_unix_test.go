//go:build unix

package main

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// trigger calls do when what is written to it first contains a word.
type trigger struct {
	mu   sync.Mutex // guards all
	buf  strings.Builder
	word string
	do   func()
}

func (g *trigger) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.buf.Write(p)
	if g.do != nil && strings.Contains(g.buf.String(), g.word) {
		g.do()
		g.do = nil
	}
	return len(p), nil
}

// TestCtrlC interrupts commands at work: they print what was done until then, say
// why it is not all, and end as shells expect it.
func TestCtrlC(t *testing.T) {
	interrupt := func(args []string, word string) (code int, out, errs string) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		stop := func() { cancel(interruption(os.Interrupt)) }
		stdout, stderr := &trigger{word: word, do: stop}, &trigger{word: word, do: stop}
		code = run(ctx, args, stdout, stderr)
		return code, stdout.buf.String(), stderr.buf.String()
	}
	port := freePort(t, loopback(31))
	server := make(chan int, 1)
	ctx, end := context.WithCancelCause(t.Context())
	ready := make(chan struct{})
	go func() {
		server <- run(ctx, []string{"perf", "write", "--forever", "--addr", loopback(31), "--port", port}, &strings.Builder{},
			&trigger{word: "serving", do: func() { close(ready) }})
	}()
	<-ready
	code, out, errs := interrupt([]string{"perf", "write", "--json", "--addr", loopback(30), "--port", port, "--duration", "5m", loopback(31)}, "b/s")
	var sum struct {
		Messages    uint64
		Seconds     float64
		Interrupted bool
	}
	if err := json.Unmarshal([]byte(out), &sum); err != nil || code != 130 || sum.Messages == 0 || sum.Seconds <= 0 || !sum.Interrupted || !strings.HasSuffix(errs, "perf write: interrupted\n") {
		t.Errorf("perf: code %d, %v\n%s%s", code, err, out, errs)
	}
	end(interruption(syscall.SIGTERM))
	if code := <-server; code != exitOK {
		t.Errorf("a server that serves until it is interrupted: code %d", code)
	}
	start := time.Now()
	code, out, errs = interrupt([]string{"sim", "--for", "5m", "--jobs", "1"}, "packets/s/core")
	if code != 130 || !strings.Contains(out, " runs (profile") || !strings.HasSuffix(errs, "interrupted\n") {
		t.Errorf("sim after %v: code %d\n%s%s", time.Since(start), code, out, errs)
	}
}
