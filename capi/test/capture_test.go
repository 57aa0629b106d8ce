//go:build linux && cgo

package test

import (
	"bytes"
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

// seeCaptured captures a program's packets in a file and over a socket: both have all requests
// of the program.
func seeCaptured(t *testing.T, s *stand) {
	file := filepath.Join(t.TempDir(), "capture.pcapng")
	if out, err := s.run(t, "transfer", "SOFTHCA_CAPTURE="+file); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b, err := os.ReadFile(file)
	must.Do(t, err)
	wantTransfer(t, bytes.NewReader(b))
	if out, err := s.run(t, "transfer", "SOFTHCA_CAPTURE="+file); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if both, err := os.ReadFile(file); err != nil || len(both) <= len(b) || !bytes.HasPrefix(both, b) {
		t.Errorf("the capture of a second program is not behind that of the first: %d bytes after %d, %v", len(both), len(b), err)
	}
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	must.Do(t, err)
	got := make(chan []byte, 1)
	go func() {
		var all []byte
		if conn, err := l.Accept(); err == nil {
			all, _ = io.ReadAll(conn) // the checks below find missing packets
			_ = conn.Close()
		}
		got <- all
	}()
	out, err := s.run(t, "transfer", "SOFTHCA_CAPTURE=unix:"+l.Addr().String())
	_ = l.Close()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wantTransfer(t, bytes.NewReader(<-got))
	// A program may outlive the reader of its capture: it continues, and logs a warning.
	if out, err := s.run(t, "transfer", "SOFTHCA_CAPTURE=unix:"+l.Addr().String()); err != nil || !strings.HasSuffix(out, "ok\n") || !strings.Contains(out, "the capture has no reader") {
		t.Errorf("a capture without a reader: %v\n%s", err, out)
	}
	if out, err := s.run(t, "transfer", "SOFTHCA_CAPTURE="+t.TempDir()); err == nil || !strings.Contains(out, "capture") {
		t.Errorf("a capture that cannot be written: %v\n%s", err, out)
	}
}

// wantTransfer fails unless a capture has the requests of the scenario.
func wantTransfer(t *testing.T, r io.Reader) {
	t.Helper()
	report, err := explain.Read(r, explain.Config{})
	must.Do(t, err)
	var asked []string
	for _, m := range report.Messages {
		asked = append(asked, m.Operation+" "+m.Outcome)
	}
	for _, want := range []string{"SEND completed", "WRITE completed", "READ completed", "COMPARE_SWAP completed", "FETCH_ADD completed"} {
		if !slices.Contains(asked, want) {
			t.Errorf("no %s is captured, but %q", want, asked)
		}
	}
	if report.Verdict.Bad() {
		t.Errorf("the verdict is %+v", report.Verdict)
	}
}
