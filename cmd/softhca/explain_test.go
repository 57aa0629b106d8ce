package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// explained runs the command on a capture of Linux, compressed if zip is set.
func explained(t *testing.T, capture string, zip bool, flags ...string) (string, error) {
	t.Helper()
	name := "../../internal/testdata/captures/" + capture + ".pcap"
	if zip {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		name = filepath.Join(t.TempDir(), "capture.pcap.gz")
		if err := os.WriteFile(name, z.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
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
	if text, err = explained(t, "loss_send_middle.client", true); err != nil || !strings.HasPrefix(text, "VERDICT repaired: ") {
		t.Errorf("what was repaired, compressed: %v\n%s", err, text)
	}
}

func TestExplainJSON(t *testing.T) {
	text, err := explained(t, "errs_send", false, "--json")
	if err != nil {
		t.Fatal(err)
	}
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
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	if r.Version != 1 || r.Verdict.Outcome != "clean" || r.Findings == nil || len(r.Findings) > 0 || len(r.Conversations) != 1 {
		t.Fatalf("%s", text)
	}
	c := r.Conversations[0]
	if c.Service != "RC" || c.B.Addr != "10.77.0.2" || c.B.QPN == nil || c.AToB.Messages != 8 || c.AToB.Bytes != 7242 {
		t.Errorf("%s", text)
	}
}
