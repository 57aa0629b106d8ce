package main

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// waitFor is standard error of a command in the background. It closes listening
// when the command says where it listens.
type waitFor struct {
	mu        sync.Mutex // guards buf
	buf       bytes.Buffer
	listening chan struct{}
	once      sync.Once
}

func (w *waitFor) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if bytes.Contains(b, []byte("listening on")) {
		w.once.Do(func() { close(w.listening) })
	}
	return w.buf.Write(b)
}

// listener is a server that runs.
type listener struct {
	code   chan int
	out    bytes.Buffer
	errs   waitFor
	cancel context.CancelFunc
}

// listen runs a server. When it returns the server listens or has ended.
func listen(t *testing.T, args ...string) *listener {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	b := &listener{code: make(chan int, 1), errs: waitFor{listening: make(chan struct{})}, cancel: cancel}
	ended := make(chan struct{})
	go func() {
		b.code <- run(ctx, args, &b.out, &b.errs)
		close(ended)
	}()
	select {
	case <-b.errs.listening:
	case <-ended:
	}
	return b
}

// TestC11_PerfCM measures against a server, which then is interrupted,
// and within the process.
func TestC11_PerfCM(t *testing.T) {
	server := listen(t, "perf", "cm", "--addr", loopback(26))
	code, out, errs := command(t, "perf", "cm", "--addr", loopback(27), "--connections", "10", loopback(26))
	if code != exitOK || !strings.HasPrefix(out, "connections: 10 established") || !strings.Contains(out, "\n  connect       p50 ") || errs != "" {
		t.Errorf("client: exit code %d, %q, %q", code, out, errs)
	}
	server.cancel()
	if code := <-server.code; code != exitOK {
		t.Errorf("server: exit code %d, %q", code, &server.errs.buf)
	}
	code, out, errs = command(t, "perf", "cm", "--local", "--addr", loopback(28), "--connections", "10", "--cycles", "20", "--json", "--cm-timeout", "60ms")
	var sum struct {
		Cycles struct{ Count int }
		Leaks  struct{ Clean bool }
		Ratio  float64 `json:"cycle_ratio"`
	}
	if err := json.Unmarshal([]byte(out), &sum); code != exitOK || err != nil || sum.Cycles.Count != 20 || !sum.Leaks.Clean || sum.Ratio <= 0 {
		t.Errorf("--local: exit code %d, %v, %q, %q", code, err, out, errs)
	}
}

// TestPerfCMFaults loses a message by the flags that all commands have, and finds it in the
// capture.
func TestPerfCMFaults(t *testing.T) {
	server := listen(t, "perf", "cm", "--addr", loopback(20))
	file := filepath.Join(t.TempDir(), "req.pcapng")
	code, out, errs := command(t, "perf", "cm", loopback(20), "--addr", loopback(21), "--connections", "1", "--cm-timeout", "50ms", "--fault", "drop op=REQ nth=1", "--capture", file)
	if code != exitOK || !strings.Contains(errs, "acted 1 time") {
		t.Errorf("client: exit code %d, %q, %q", code, out, errs)
	}
	server.cancel()
	if code := <-server.code; code != exitOK {
		t.Errorf("server, interrupted: exit code %d, %q", code, &server.errs.buf)
	}
	code, out, errs = command(t, "decode", file)
	if code != exitOK || strings.Count(out, "  REQ comm") != 2 {
		t.Errorf("one REQ was lost and one arrived; the capture, taken before the loss: exit code %d, %q\n%s", code, errs, out)
	}
}

// TestPerfCMUsage refuses wrong command lines.
func TestPerfCMUsage(t *testing.T) {
	for _, line := range []string{
		"perf cm 127.0.0.1 --cm-timeout 0", "perf cm 127.0.0.1 --cm-retries 16", "perf cm -x", "perf cm --port", "perf cm --port nonsense",
		"perf cm --connections 0", "perf cm --cycles 5", "perf cm --local 127.0.0.1", "perf cm --local --addr lo", "perf cm --local --window 0", "perf cm a b",
	} {
		code, out, errs := command(t, strings.Fields(line)...)
		if code != exitUsage || out != "" || !strings.HasPrefix(errs, "softhca: ") || !strings.Contains(errs, "--help") {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", line, code, out, errs)
		}
	}
}

// TestPerfCMAdvice checks the advice in errors.
func TestPerfCMAdvice(t *testing.T) {
	for line, want := range map[string]string{
		"perf cm nowhere.invalid":    "perf cm: host \"nowhere.invalid\" is neither an IP address nor a name",
		"perf cm --addr 192.0.2.1":   "no interface has address 192.0.2.1",
		"perf cm --local --addr ::1": "perf cm: ",
	} {
		code, _, errs := command(t, strings.Fields(line)...)
		if code != exitFailed || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d, %q, want %q", line, code, errs, want)
		}
	}
}
