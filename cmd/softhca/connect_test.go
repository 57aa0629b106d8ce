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

// TestC11_CmtimeCommand measures against a server, which then is interrupted,
// and within the process.
func TestC11_CmtimeCommand(t *testing.T) {
	server := listen(t, "cmtime", "--addr", loopback(26))
	code, out, errs := command(t, "cmtime", "-s", loopback(26), "--addr", loopback(27), "-c", "10")
	if code != exitOK || !strings.Contains(out, "\nconnect      : ") || !strings.Contains(out, "connections: 10 established") || errs != "" {
		t.Errorf("client: exit code %d, %q, %q", code, out, errs)
	}
	server.cancel()
	if code := <-server.code; code != exitOK {
		t.Errorf("server: exit code %d, %q", code, &server.errs.buf)
	}
	code, out, errs = command(t, "cmtime", "--local", "--addr", loopback(28), "-c", "10", "--cycles", "20", "--json", "--cm-timeout", "60ms")
	var sum struct {
		Cycles struct{ Count int }
		Leaks  struct{ Clean bool }
		Ratio  float64 `json:"cycle_ratio"`
	}
	if err := json.Unmarshal([]byte(out), &sum); code != exitOK || err != nil || sum.Cycles.Count != 20 || !sum.Leaks.Clean || sum.Ratio <= 0 {
		t.Errorf("--local: exit code %d, %v, %q, %q", code, err, out, errs)
	}
}

// TestCmtimeFaults loses a message by the flags that all commands have, and finds it in the
// capture.
func TestCmtimeFaults(t *testing.T) {
	server := listen(t, "cmtime", "--addr", loopback(20))
	file := filepath.Join(t.TempDir(), "req.pcapng")
	code, out, errs := command(t, "cmtime", "-s", loopback(20), "--addr", loopback(21), "-c", "1", "--cm-timeout", "50ms", "--fault", "drop op=REQ nth=1", "--capture", file)
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

// TestConnectUsage refuses wrong command lines.
func TestConnectUsage(t *testing.T) {
	for _, line := range []string{
		"cmtime -s 127.0.0.1 --cm-timeout 0", "cmtime -s 127.0.0.1 --cm-retries 16", "cmtime -x", "cmtime -p", "cmtime -c 0", "cmtime -r 8", "cmtime -t 0",
		"cmtime --cycles 5", "cmtime --local -s 127.0.0.1", "cmtime --local --addr lo", "cmtime --local --window 0", "cmtime now",
	} {
		code, out, errs := command(t, strings.Fields(line)...)
		if code != exitUsage || out != "" || !strings.HasPrefix(errs, "softhca: ") || !strings.Contains(errs, "--help") {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", line, code, out, errs)
		}
	}
}

// TestConnectAdvice checks the advice in errors.
func TestConnectAdvice(t *testing.T) {
	for line, want := range map[string]string{
		"cmtime -s nowhere.invalid":                             "neither an IP address nor a name",
		"cmtime -s " + loopback(33) + " -p nonsense":            "neither a number",
		"cmtime -b 192.0.2.1":                                   "no interface has address 192.0.2.1",
		"cmtime -b " + loopback(33) + " --addr " + loopback(32): "name it with --addr",
	} {
		code, _, errs := command(t, strings.Fields(line)...)
		if code != exitFailed || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d, %q, want %q", line, code, errs, want)
		}
	}
}
