package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/pcapfile"
)

// explained runs the command on a capture of Linux, compressed if zip is set.
func explained(t *testing.T, capture string, zip bool, flags ...string) (string, error) {
	t.Helper()
	name := "../../internal/testdata/captures/" + capture + ".pcap"
	if zip {
		b, err := os.ReadFile(name)
		must.Do(t, err)
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
		must.Do(t, w.Close())
		name = filepath.Join(t.TempDir(), "capture.pcap.gz")
		must.Do(t, os.WriteFile(name, z.Bytes(), 0o644))
	}
	cmd := newExplainCommand()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs(append(flags, name))
	err := cmd.Execute()
	return out.String(), err
}

func TestExplain(t *testing.T) {
	text, err := explained(t, "errs_rnr_exceeded", false)
	if err == nil || !strings.Contains(err.Error(), "the receiver was not ready") {
		t.Errorf("a connection that failed gives %v", err)
	}
	if !strings.HasPrefix(text, "VERDICT failed: ") || strings.Contains(text, "\x1b") {
		t.Errorf("the text is\n%s", text)
	}
	for _, want := range []string{"RNR_RETRY_EXC_ERR", "CONVERSATIONS", "FINDINGS", "rnr-unresolved", "PACKETS", "RNR_NAK(18)", "docs/explain.md#rnr-unresolved"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	for _, c := range []struct {
		capture, outcome string
		code             int
	}{
		{"errs_send", "clean", exitOK},
		{"loss_send_middle.client", "repaired", exitOK},
		{"errs_rnr_exceeded", "failed", exitFailed},
		{"loss_uc_middle.server", "lost", exitFailed},
		{"errs_ud_bad_qkey", "unknown", exitUntold},
		{"errs_uc_bad_rkey", "unknown", exitUntold},
		{"errs_post_wrong_state", "empty", exitUntold},
	} {
		code, out, errs := command(t, "explain", "../../internal/testdata/captures/"+c.capture+".pcap")
		if code != c.code || !strings.HasPrefix(out, "VERDICT "+c.outcome+": ") || strings.Contains(out, "conversation 0") {
			t.Errorf("%s: exit code %d, want %d; %s\n%s", c.capture, code, c.code, errs, out)
		}
	}
	half := filepath.Join(t.TempDir(), "half.pcap")
	b, err := os.ReadFile("../../internal/testdata/captures/errs_send.pcap")
	must.Do(t, err)
	must.Do(t, os.WriteFile(half, b[:len(b)/2], 0o600))
	for _, file := range []string{half, "no-such-file.pcap", "explain_test.go"} {
		if code, _, errs := command(t, "explain", file); code != exitUsage || errs == "" || strings.Contains(errs, "--help") {
			t.Errorf("%s: exit code %d, want %d; %s", file, code, exitUsage, errs)
		}
	}
	if text, err = explained(t, "loss_send_middle.client", true); err != nil || !strings.HasPrefix(text, "VERDICT repaired: ") {
		t.Errorf("what was repaired, compressed: %v\n%s", err, text)
	}
}

func TestExplainJSON(t *testing.T) {
	text, err := explained(t, "errs_send", false, "--json")
	must.Do(t, err)
	var r struct {
		Version       int
		Verdict       struct{ Outcome string }
		Conversations []struct {
			Service string
			B       struct {
				Addr string
				QPN  *int
			}
			AToB struct{ Messages, Bytes int } `json:"a_to_b"`
		}
		Findings []any
	}
	must.Do(t, json.Unmarshal([]byte(text), &r))
	if r.Version != 2 || r.Verdict.Outcome != "clean" || r.Findings == nil || len(r.Findings) > 0 || len(r.Conversations) != 1 {
		t.Fatalf("%s", text)
	}
	c := r.Conversations[0]
	if c.Service != "RC" || c.B.Addr != "10.77.0.2" || c.B.QPN == nil || c.AToB.Messages != 8 || c.AToB.Bytes != 7242 {
		t.Errorf("%s", text)
	}
}

// TestExplainAll lists what a text leaves out, if it is asked for: eleven captures in one
// have as many conversations.
func TestExplainAll(t *testing.T) {
	merged := filepath.Join(t.TempDir(), "merged.pcap")
	var all []byte
	for i, name := range []string{
		"errs_send", "errs_read", "errs_atomic", "errs_write_imm", "errs_m256_read", "errs_m256_send", "errs_psn_wrap", "pp_rc_64", "pp_rc_4096", "pf_read_lat",
		"errs_bad_rkey_write",
	} {
		b, err := os.ReadFile("../../internal/testdata/captures/" + name + ".pcap")
		must.Do(t, err)
		if i > 0 {
			b = b[24:] // without the file's header
		}
		all = append(all, b...)
	}
	must.Do(t, os.WriteFile(merged, all, 0o600))
	_, short, _ := command(t, "explain", merged)
	_, long, _ := command(t, "explain", "--all", merged)
	if want := "and 1 more (--all shows them)\n"; !strings.Contains(short, want) || strings.Contains(long, want) || len(long) <= len(short) {
		t.Errorf("%q is to be in\n%s\nand not in\n%s", want, short, long)
	}
	if want := "\n 11  RC  failed "; !strings.Contains(short, want) || !strings.Contains(short, "11: 1 failed, 10 clean") {
		t.Errorf("%q, the only one that failed, is missing in\n%s", want, short)
	}
}

// TestExplainHTML writes a page in addition to the text, for a file and for
// standard input.
func TestExplainHTML(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.html")
	text, err := explained(t, "loss_send_middle.client", true, "--html", page)
	if err != nil || !strings.HasPrefix(text, "VERDICT repaired: ") {
		t.Errorf("%v\n%s", err, text)
	}
	fromFile, err := os.ReadFile(page)
	if err != nil || !bytes.Contains(fromFile, []byte("which the NAK in record")) {
		t.Errorf("the page has %d bytes and no detail of the finding; %v", len(fromFile), err)
	}
	in, err := os.Open("../../internal/testdata/captures/loss_send_middle.client.pcap")
	must.Do(t, err)
	defer in.Close()
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	cmd := newExplainCommand()
	cmd.SetIn(in)
	cmd.SetOut(io.Discard)
	cmd.SetArgs([]string{"--html", page, "-"})
	must.Do(t, cmd.Execute())
	fromInput, err := os.ReadFile(page)
	if err != nil || len(fromInput) < len(fromFile)-100 {
		t.Errorf("the page has %d bytes of a file and %d of the same on standard input; %v", len(fromFile), len(fromInput), err)
	}
	if left, err := os.ReadDir(temp); len(left) > 0 || err != nil {
		t.Errorf("%v is left behind; %v", left, err)
	}
	if _, err := explained(t, "errs_send", false, "--html", "-"); err == nil || !strings.Contains(err.Error(), "want the name of a file") {
		t.Errorf("a page to standard output: %v", err)
	}
	if _, err := explained(t, "errs_send", false, "--html", filepath.Join(temp, "none", "page.html")); err == nil {
		t.Error("a page in a directory that is not there was written")
	}
}

// TestExplainLive refuses what cannot be followed.
func TestExplainLive(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--live", "no0"}, exitUsage, "explain --live: interface no0: "},
		{[]string{"--live", "lo", "x.pcap"}, exitUsage, "--live takes no FILE"},
		{[]string{"--live", "lo", "--html", "x.html"}, exitUsage, "--html needs a FILE"},
		{nil, exitUsage, "needs a FILE"},
	} {
		if code, _, errs := command(t, append([]string{"explain"}, c.args...)...); code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("explain %q: exit code %d, want %d; %s", c.args, code, c.code, errs)
		}
	}
}

// TestExplainExpectations checks the exit codes of explain with expectations, which are additional to the
// verdict unless they name an outcome.
func TestExplainExpectations(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pcapng")
	w, err := os.Create(empty)
	must.Do(t, err)
	file, err := pcapfile.NewWriter(w)
	must.Do(t, errors.Join(err, file.Flush(), w.Close()))
	const failed, fine, repaired = captures + "errs_bad_rkey_write.pcap", captures + "errs_send.pcap", captures + "errs_rnr_then_ok.pcap"
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{failed, exitFailed, "remote access error"},
		{"--require-packets " + failed, exitFailed, "remote access error"},
		{"--require-packets " + fine, 0, ""},
		{"--require-packets " + empty, exitFailed, "--require-packets: no RoCEv2 packet passed"},
		{empty, exitUntold, ""},
		{"--expect REM_ACCESS_ERR " + failed, 0, ""},
		{"--expect RETRY_EXC_ERR " + failed, exitFailed, "the programs got REM_ACCESS_ERR"},
		{"--expect REM_ACCESS_ERR " + fine, exitFailed, "no program got an error"},
		{"--expect clean " + failed, exitFailed, "--expect clean: failed: a WRITE was refused"},
		{"--expect clean " + fine, 0, ""},
		{"--expect repaired " + fine, 0, ""},
		{"--expect repaired " + repaired, 0, ""},
		{"--expect clean " + repaired, exitFailed, "--expect clean: repaired: "},
		{"--expect WR_FLUSH_ERR " + failed, exitUsage, "want clean, repaired, or a completion status"},
		{"--expect SUCCESS " + failed, exitUsage, "want clean, repaired, or a completion status"},
		{fine + " -", exitUsage, "standard input"},
		{fine + " " + failed, exitFailed, "remote access error"},
	} {
		code, _, errs := command(t, append([]string{"explain"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("explain %s: exit code %d, want %d; %s", c.args, code, c.code, errs)
		}
	}
}
