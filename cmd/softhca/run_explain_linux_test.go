package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/explain"
	"github.com/softhca/softhca/internal/must"
)

// TestRunExplain runs programs as children: the command exits with their exit
// codes, and explains their packets.
func TestRunExplain(t *testing.T) {
	i := install(t)
	for _, c := range []struct {
		args []string
		code int
		want string // of what is printed
		errs string // likewise
	}{
		{[]string{"--", "sh", "-c", "echo printed; cat"}, 0, "printed\n", "no packet passed"},
		{[]string{"--", "sh", "-c", "exit 7"}, 7, "", "sh ended with exit code 7"},
		{[]string{"--", "sh", "-c", "kill -TERM $$"}, 143, "", "ended with exit code 143"},
		{[]string{"--", "/no/such/program"}, 127, "", "no such file or directory"},
		{[]string{"--", "/etc/passwd"}, 126, "", "permission denied"},
		{[]string{"--capture", "x.pcapng", "--", "true"}, 125, "", "use one of them"},
		{[]string{"--", "sh", "-c", "test -S ${SOFTHCA_CAPTURE#unix:} && echo $SOFTHCA_CAPTURE | cut -c1-5"}, 0, "unix:\n", "no packet passed"},
		// The shell sends the signal to the command, which passes it on to the program; the
		// program prints that it got one.
		{[]string{"--", "sh", "-c", `trap 'echo passed on; exit 5' TERM; kill -TERM $PPID; while :; do sleep 0.05; done`}, 5, "passed on\n", "exit code 5"},
	} {
		state, out, errs := i.run(t, append([]string{"--explain"}, c.args...)...)
		if state.ExitCode() != c.code || out != c.want || !strings.Contains(errs, c.errs) {
			t.Errorf("run --explain %q: exit code %d, want %d\n%q, want %q\n%q, want %q", c.args, state.ExitCode(), c.code, out, c.want, errs, c.errs)
		}
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "softhca-run-*")); len(left) > 0 || err != nil {
		t.Errorf("%v is left behind; %v", left, err)
	}
}

// TestEars listens to several adapters at once: of a process that ended, of one that
// ended within a packet, of one that goes on, and to what is no capture.
func TestEars(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "capture"))
	must.Do(t, err)
	e := &ears{listener: l, told: &newsroom{w: io.Discard}}
	done := make(chan struct{})
	go func() {
		e.listen()
		close(done)
	}()
	var open []net.Conn
	for _, c := range []struct {
		name string
		cut  int
	}{{"errs_send", 0}, {"errs_rnr_exceeded", 0}, {"errs_bad_rkey_write", 5}, {"", 0}} {
		b := bytes.Repeat([]byte("no capture "), 10_000)
		if c.name != "" {
			if b, err = os.ReadFile("../../internal/testdata/captures/" + c.name + ".pcap"); err != nil {
				t.Fatal(err)
			}
		}
		conn, err := net.Dial("unix", l.Addr().String())
		must.Do(t, err)
		if _, err := conn.Write(b[:len(b)-c.cut]); err != nil {
			t.Fatal(err)
		}
		if c.name == "errs_rnr_exceeded" {
			open = append(open, conn) // it goes on
			continue
		}
		must.Do(t, conn.Close())
	}
	// Accepted in the order in which they dialed: when this one is heard, all are.
	last, err := net.Dial("unix", l.Addr().String())
	must.Do(t, err)
	if _, err := last.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	must.Do(t, last.(*net.UnixConn).CloseWrite())
	if _, err := io.Copy(io.Discard, last); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := tellAll(&out, e.close()); err != nil {
		t.Error(err)
	}
	<-done
	for _, want := range []string{"ADAPTER 1 of 3", "ADAPTER 3 of 3", "VERDICT failed: the receiver was not ready", "VERDICT clean: nothing went wrong in"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	if clean := strings.Index(out.String(), "VERDICT clean"); clean < strings.LastIndex(out.String(), "VERDICT failed") {
		t.Errorf("what went well comes first:\n%s", out.String())
	}
	for _, conn := range open {
		_ = conn.Close()
	}
}

// TestManyAdapters tells of some adapters one by one, and counts the others.
func TestManyAdapters(t *testing.T) {
	var many []*explain.Report
	for _, name := range []string{"errs_send", "errs_rnr_exceeded"} {
		f, err := os.Open("../../internal/testdata/captures/" + name + ".pcap")
		must.Do(t, err)
		defer f.Close()
		r, err := explain.Read(f, explain.Config{})
		must.Do(t, err)
		many = append(many, slices.Repeat([]*explain.Report{r}, maxTold)...)
	}
	var out bytes.Buffer
	must.Do(t, tellAll(&out, many))
	if text := out.String(); strings.Count(text, "VERDICT failed") != maxTold || strings.Count(text, "VERDICT") != maxTold ||
		!strings.Contains(text, fmt.Sprintf("and %d adapters more, 0 of them with findings", maxTold)) {
		t.Errorf("of %d adapters:\n%s", len(many), text)
	}
}
