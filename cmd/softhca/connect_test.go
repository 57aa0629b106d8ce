package main

import (
	"bytes"
	"context"
	"encoding/json"
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

// TestC11_RpingCommand runs both sides as command lines, with short options as
// the Linux program takes them.
func TestC11_RpingCommand(t *testing.T) {
	server := listen(t, "rping", "-sv", "-a", loopback(20), "-S100", "-p", "7175")
	code, out, errs := command(t, "rping", "-c", "-vV", "-a", loopback(20), "-I", loopback(21), "-C2", "-S", "100", "-p7175", "--fault", "delay 1ms op=REP dir=in")
	if code != exitOK || !strings.HasPrefix(out, "ping data: rdma-ping-0: ABC") || strings.Count(out, "\n") != 2 || !strings.Contains(errs, "acted 1 time") {
		t.Errorf("client: exit code %d, %q, %q", code, out, errs)
	}
	if code := <-server.code; code != exitOK || !strings.HasPrefix(server.out.String(), "server ping data: rdma-ping-0: ABC") {
		t.Errorf("server: exit code %d, %q, %q", code, &server.out, &server.errs.buf)
	}
}

// TestC11_RDMAClientCommand runs both sides as command lines, under the names of
// the Linux programs too.
func TestC11_RDMAClientCommand(t *testing.T) {
	for i, names := range [][2]string{{"rdma-server", "rdma-client"}, {"rdma_server", "rdma_client"}} {
		at, from := loopback(22+2*i), loopback(23+2*i)
		server := listen(t, names[0], "-s", at)
		code, out, errs := command(t, names[1], "-s", at, "--addr", from)
		if code != exitOK || out != "rdma_client: start\nrdma_client: end 0\n" || errs != "" {
			t.Errorf("client: exit code %d, %q, %q", code, out, errs)
		}
		if code := <-server.code; code != exitOK || server.out.String() != "rdma_server: start\nrdma_server: end 0\n" {
			t.Errorf("server: exit code %d, %q, %q", code, &server.out, &server.errs.buf)
		}
	}
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

// TestInterruptedServers ends servers that wait: only those that would go on for
// ever end well.
func TestInterruptedServers(t *testing.T) {
	for line, want := range map[string]int{
		"rping -s": exitFailed, "rping -s -P": exitOK, "rdma-server": exitFailed, "cmtime": exitOK,
	} {
		server := listen(t, append(strings.Fields(line), "--addr", loopback(30))...)
		server.cancel()
		if code := <-server.code; code != want {
			t.Errorf("%s: exit code %d, want %d, %q", line, code, want, &server.errs.buf)
		}
	}
}

// TestConnectUsage refuses wrong command lines.
func TestConnectUsage(t *testing.T) {
	for _, line := range []string{
		"rping", "rping -s -c", "rping -c", "rping -s -S 22", "rping -s -S 65536", "rping -c -a 127.0.0.1 -C -3", "rping -s -I 127.0.0.1",
		"rping -c -a 127.0.0.1 -P", "rping -s now", "rping -s -t 1", "rping -c -a 127.0.0.1 --cm-timeout 0", "rping -c -a 127.0.0.1 --cm-retries 16",
		"rdma-client now", "rdma-client -x", "rdma-server now", "rdma-server -p", "cmtime -c 0", "cmtime -r 8", "cmtime -t 0",
		"cmtime --cycles 5", "cmtime --local -s 127.0.0.1", "cmtime --local --addr lo", "cmtime --local --window 0", "cmtime now",
	} {
		code, out, errs := command(t, strings.Fields(line)...)
		if code != exitUsage || out != "" || !strings.HasPrefix(errs, "softhca: ") || !strings.Contains(errs, "--help") {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", line, code, out, errs)
		}
	}
}

// TestConnectAdvice says what to do.
func TestConnectAdvice(t *testing.T) {
	for line, want := range map[string]string{
		"rdma-client -s nowhere.invalid":                          "neither an IP address nor a name",
		"rping -s -a 192.0.2.1":                                   "no interface has address 192.0.2.1",
		"rping -s -a " + loopback(33) + " --addr " + loopback(32): "name it with --addr",
	} {
		code, _, errs := command(t, strings.Fields(line)...)
		if code != exitFailed || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d, %q, want %q", line, code, errs, want)
		}
	}
}
