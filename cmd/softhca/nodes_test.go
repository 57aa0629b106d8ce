package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// outcome is what became of a command line.
type outcome struct {
	code      int
	out, errs string
}

// printed is what a command prints. It closes seen when it has printed a text
// so many times.
type printed struct {
	mu       sync.Mutex // guards what follows; both outputs of a command may be of one kind
	out, err bytes.Buffer
	text     string
	missing  int
	seen     chan struct{}
}

// stream is one of a command's outputs.
type stream struct {
	p  *printed
	to *bytes.Buffer
}

func (s stream) Write(b []byte) (int, error) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	for range bytes.Count(b, []byte(s.p.text)) {
		if s.p.missing--; s.p.missing == 0 {
			close(s.p.seen)
		}
	}
	return s.to.Write(b)
}

// background runs a command line. It returns when that has printed a text n
// times, or has ended.
func background(t *testing.T, text string, n int, args ...string) <-chan outcome {
	t.Helper()
	p := &printed{text: text, missing: n, seen: make(chan struct{})}
	done := make(chan outcome, 1)
	ended := make(chan struct{})
	go func() {
		code := run(t.Context(), args, stream{p, &p.out}, stream{p, &p.err})
		done <- outcome{code, p.out.String(), p.err.String()}
		close(ended)
	}()
	select {
	case <-p.seen:
	case <-ended:
	}
	return done
}

// bothSides runs a server and a client, each with its own address besides the
// arguments, and wants both to succeed.
func bothSides(t *testing.T, server, client []string) {
	t.Helper()
	done := background(t, "listening on", 1, server...)
	code, out, errs := command(t, client...)
	c, s := outcome{code, out, errs}, <-done
	for _, o := range []outcome{s, c} {
		if o.code != exitOK || !strings.HasSuffix(o.out, "test complete\nreturn status 0\n") {
			t.Errorf("%q and %q: %+v", server, client, o)
		}
	}
}

// TestC11_UcmatoseCommand runs both sides over UDP, with Linux's options.
func TestC11_UcmatoseCommand(t *testing.T) {
	server, client := loopback(60), loopback(61)
	for _, extra := range []string{
		"", "-c 3 -C 20 -S 5000", "-C 0", "-S 0", "-p 7777 -m", "-t 0x68 -a 14", "-P ib", "-f ip", "-P TCP -f NAME", "-c2",
	} {
		args := strings.Fields("ucmatose --idle 20s " + extra)
		bothSides(t, append(args, "-b", server), append(args, "-s", server, "--addr", client))
	}
}

// TestUcmatoseFaults loses messages by the flags that all commands have, and
// finds them in the capture.
func TestUcmatoseFaults(t *testing.T) {
	server, client := loopback(62), loopback(63)
	file := filepath.Join(t.TempDir(), "rtu.pcapng")
	args := []string{"ucmatose", "--idle", "20s"}
	bothSides(t, append(args, "-b", server),
		append(args, "-s", server, "-b", client, "--cm-timeout", "50ms", "--fault", "drop op=RTU nth=1", "--capture", file))
	code, out, errs := command(t, "decode", file)
	if code != exitOK || strings.Count(out, "  RTU comm") != 2 {
		t.Errorf("one RTU was lost and one arrived; the capture, taken before the loss: exit code %d, %q\n%s", code, errs, out)
	}
}

// TestC9_UdaddyCommand runs both sides over UDP, with Linux's options.
func TestC9_UdaddyCommand(t *testing.T) {
	server, client := loopback(64), loopback(65)
	for _, extra := range []string{"", "-c 3 -C 20 -S 1024", "-C 0", "-t 8", "-P udp", "-p 0x111", "-p 273"} {
		args := strings.Fields("udaddy --idle 20s " + extra)
		bothSides(t, append(args, "-b", server), append(args, "-s", server, "--addr", client))
	}
}

// TestC11_MckeyCommand has a sender and two receivers at three adapters.
func TestC11_MckeyCommand(t *testing.T) {
	group := fmt.Sprintf("239.%d.%d.77", os.Getpid()>>8&255, os.Getpid()&255)
	mckey := func(i int, more ...string) []string {
		return append([]string{"mckey", "-m", group, "-b", loopback(i), "--idle", "20s", "--pause", "0s"}, more...)
	}
	for _, extra := range []string{"-S 1000", "-o", "-p 0x111"} {
		first := background(t, "joined dgid", 1, mckey(66, "-S", "1000")...)
		second := background(t, "joined dgid", 2, mckey(67, "-S", "1000", "-c", "2")...)
		code, out, errs := command(t, mckey(68, append(strings.Fields(extra), "-s")...)...)
		for _, o := range []outcome{<-first, <-second, {code, out, errs}} {
			if o.code != exitOK || !strings.HasSuffix(o.out, "data transfers complete\ntest complete\nreturn status 0\n") {
				t.Errorf("%s: %+v", extra, o)
			}
		}
	}
}

// TestNodesFail ends with the status of the Linux programs in the last line,
// and says what to do.
func TestNodesFail(t *testing.T) {
	server := background(t, "listening on", 1, "udaddy", "-b", loopback(70), "--idle", "1ms")
	for _, c := range []struct {
		line   string
		status string
		want   string // on standard error
	}{
		{"ucmatose -s " + loopback(70) + " --addr " + loopback(71), "8", "nothing listens on"},
		{"ucmatose -s " + loopback(70) + " --addr " + loopback(70), "8", "nothing listens on"},
		{"ucmatose -s " + loopback(70) + " -p nonsense", "-2", "neither a number"},
		{"ucmatose -b 192.0.2.99", "-1", "cannot assign requested address"},
		{"udaddy -s " + loopback(70) + " --addr " + loopback(71) + " -P ipoib", "-22", "ADDR_ERROR"},
		{"udaddy -S 4097 -b " + loopback(71), "-22", "-S at most 4096"},
		{"mckey -m 239.1.2.3 -S 4097 -b " + loopback(71), "-22", "-S at most 4096"},
	} {
		code, out, errs := command(t, strings.Fields(c.line)...)
		if code != exitFailed || !strings.HasSuffix(out, "return status "+c.status+"\n") || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit code %d, %q\n%s", c.line, code, errs, out)
		}
	}
	// One connection without data ends the server.
	command(t, "udaddy", "-s", loopback(70), "--addr", loopback(71), "--idle", "1ms")
	<-server
}

// TestNodesUsage refuses command lines before anything is opened.
func TestNodesUsage(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"ucmatose now", "no argument"},
		{"ucmatose -c 0", "0 connections"},
		{"ucmatose -C -1", "count -1"},
		{"ucmatose -t 256", "256"},
		{"ucmatose -a 32", "5 bits"},
		{"ucmatose -f gid", "-f gid"},
		{"ucmatose -f ip -s localhost", "not an IP address"},
		{"ucmatose -f nmae", `--format "nmae": want name, ip or ipv6; did you mean name?`},
		{"ucmatose -P tpc", `--port-space "tpc": want tcp or ib; did you mean tcp?`},
		{"udaddy -P tcp", `--port-space "tcp": want udp or ipoib`},
		{"ucmatose -s 127.0.0.1 --cm-retries 16", "1 to 15"},
		{"udaddy -p 7174", "the port cannot be chosen"},
		{"udaddy -P udp -p 0x111", "port-space"},
		{"udaddy -S -1", "size -1"},
		{"mckey", "no group"},
		{"mckey -m 10.0.0.1", "no multicast address"},
		{"mckey -M ff15::1", "requires binding"},
		{"mckey -m 239.1.2.3 -l", "(-l)"},
	} {
		code, out, errs := command(t, strings.Fields(c.line)...)
		if code != exitUsage || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit code %d, %q, %q", c.line, code, out, errs)
		}
	}
}
