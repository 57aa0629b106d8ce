package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// TestDecodeChooses tests filters: lists, repeated options, and a compressed file.
func TestDecodeChooses(t *testing.T) {
	data, err := os.ReadFile(captures + "cm_rdma_client.pcap")
	must.Do(t, err)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write(data)
	must.Do(t, z.Close())
	name := filepath.Join(t.TempDir(), "a.pcap.gz")
	must.Do(t, os.WriteFile(name, zipped.Bytes(), 0o600))
	for _, args := range [][]string{{"--op", "REQ,rtu"}, {"--op", "REQ", "--op", "RTU"}, {"--op", "REQ,RTU", "--addr", "0.0.0.0/0", "--time", "0..", "--qp", "1"}} {
		code, out, errs := command(t, append([]string{"decode", name}, args...)...)
		if code != exitOK || strings.Count(out, " REQ ")+strings.Count(out, " RTU ") != 2 || strings.Count(out, "\n") != 3 || !strings.Contains(out, " left_out=") || strings.Contains(out, "\x1b") {
			t.Errorf("%q: code %d\n%s%s, want the REQ, the RTU and the counts, without colors", args, code, out, errs)
		}
	}
	code, out, errs := command(t, "decode", "--json", "--op", "REQ", "-x", name)
	if code != exitOK || strings.Count(out, "\n") != 1 || !strings.Contains(out, `"data":"0107`) {
		t.Errorf("--json: code %d\n%s%s", code, out, errs)
	}
	for _, wrong := range [][]string{{"--op", "SNED"}, {"--qp", "x"}, {"--addr", "lo"}, {"--time", "1"}} {
		if code, out, errs := command(t, append([]string{"decode", name}, wrong...)...); code != exitUsage || out != "" || !strings.Contains(errs, wrong[0]+": ") {
			t.Errorf("%q: code %d\n%s%s, want a usage error that names the option", wrong, code, out, errs)
		}
	}
}
