package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/explain"
	"github.com/softhca/softhca/internal/must"
)

// TestExplainFlag explains the packets of a command while they pass: an error that
// the demonstration provokes, and the effect of a fault rule on a measurement.
func TestExplainFlag(t *testing.T) {
	file := filepath.Join(t.TempDir(), "demo.pcapng")
	_, out, errs := command(t, "demo", "--addr", loopback(80), "--peer", loopback(81), "--measure", "0", "--explain", "--capture", file)
	if strings.Contains(out, "VERDICT") || strings.Count(errs, "VERDICT") != 1 ||
		!strings.Contains(errs, "VERDICT failed: a WRITE was refused: remote access error") || !strings.Contains(errs, "REM_ACCESS_ERR (10)") {
		t.Errorf("standard error:\n%s", errs)
	}
	text, _ := explainedFile(t, file)
	if !strings.Contains(errs, "a request was refused: its R_Key no longer gives the access that it gave before") {
		t.Errorf("standard error says nothing of the key that died:\n%s", errs)
	}
	if live := errs[strings.Index(errs, "VERDICT"):]; !strings.HasPrefix(live, text) {
		t.Errorf("of the file explain says\n%s\nand of what passes\n%s", text, live)
	}
	if n := strings.Count(errs, "softhca: failed now: RC, "); n != 2 || strings.Index(errs, "failed now") > strings.Index(errs, "VERDICT") {
		t.Errorf("of two connections that failed were told %d before the end:\n%s", n, errs)
	}
	var code int
	code, _, errs = command(t, "perf", "write", "--local", "--addr", loopback(82), "--duration", "5s", "--explain", "--timeout", "30ms", "--retry", "2",
		"--fault", "drop p=1 dir=out")
	if code != exitFailed || !strings.Contains(errs, "VERDICT failed: ") || !strings.Contains(errs, "RETRY_EXC_ERR (12)") || !strings.Contains(errs, "lost by rule 'drop") {
		t.Errorf("exit code %d, standard error:\n%s", code, errs)
	}
	if code, _, errs = command(t, "demo", "--addr", "192.0.2.99", "--explain"); code != exitFailed || strings.Contains(errs, "VERDICT") {
		t.Errorf("an adapter that does not open: exit code %d, %s", code, errs)
	}
	for _, name := range []string{"sim", "states", "devices", "faults"} {
		if code, _, errs = command(t, name, "--explain"); code != exitUsage || !strings.Contains(errs, "--explain has no effect here") {
			t.Errorf("%s --explain: exit code %d, %s", name, code, errs)
		}
	}
}

// explainedFile runs explain on a file.
func explainedFile(t *testing.T, name string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := newExplainCommand()
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs([]string{name})
	err := cmd.Execute()
	return out.String(), err
}

// TestLive writes a capture in pieces of any size, and one that is none.
func TestLive(t *testing.T) {
	file, err := os.ReadFile("../../internal/testdata/captures/errs_rnr_exceeded.pcap")
	must.Do(t, err)
	want, _ := explainedFile(t, "../../internal/testdata/captures/errs_rnr_exceeded.pcap")
	for _, piece := range []int{1, 7, 1000, len(file)} {
		l := explainLive(&newsroom{w: io.Discard})
		for b := file; len(b) > 0; b = b[min(piece, len(b)):] {
			if n, err := l.Write(b[:min(piece, len(b))]); err != nil || n != min(piece, len(b)) {
				t.Fatal(n, err)
			}
		}
		var out bytes.Buffer
		if err := tellLive(&out, l.end()); err != nil || out.String() != want {
			t.Errorf("in pieces of %d bytes: %v\n%s", piece, err, out.String())
		}
	}
	l := explainLive(&newsroom{w: io.Discard})
	for range 10 * liveBlocks { // more than it holds: no thread may wait for it
		if _, err := l.Write([]byte("this is no capture")); err != nil {
			t.Fatal(err)
		}
	}
	if err := tellLive(new(bytes.Buffer), l.end()); err == nil {
		t.Error("what is no capture was explained")
	}
}

// TestNews reports failing connections up to a limit, and none after that.
func TestNews(t *testing.T) {
	var out bytes.Buffer
	d := &newsroom{w: &out}
	for range 3 * maxNews {
		d.tell(explain.News{Verdict: explain.Verdict{Where: "here", Headline: "it broke", Requester: "RETRY_EXC_ERR (12)", Page: "docs/x.md"}})
	}
	if n := strings.Count(out.String(), "failed now: here\n  it broke; the requester sees RETRY_EXC_ERR (12); see docs/x.md\n"); n != maxNews {
		t.Errorf("of %d is told, not of %d:\n%s", n, maxNews, out.String())
	}
	if n := strings.Count(out.String(), "no more reports while packets pass"); n != 1 {
		t.Errorf("that there are more is said %d times", n)
	}
}

// TestDeathInSilence writes a capture that ends with an unanswered request: its
// failure is reported while the adapter is still open.
func TestDeathInSilence(t *testing.T) {
	file, err := os.ReadFile("../../internal/testdata/captures/errs_peer_reset.pcap")
	must.Do(t, err)
	told := make(chan string, 1)
	l := explainLive(&newsroom{w: writerFunc(func(b []byte) (int, error) {
		told <- string(b)
		return len(b), nil
	})})
	if _, err := l.Write(file); err != nil {
		t.Fatal(err)
	}
	if text := <-told; !strings.Contains(text, "never got an answer; the requester sees RETRY_EXC_ERR (12)") {
		t.Errorf("told is %s", text)
	}
	if r := l.end(); r.Verdict.Cause != "no-answer" {
		t.Errorf("%+v", r.Verdict)
	}
}

// writerFunc is an io.Writer.
type writerFunc func(b []byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
