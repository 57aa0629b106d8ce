package main

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
)

// TestVersion asks in all three ways which build this is.
func TestVersion(t *testing.T) {
	code, line, errs := command(t, "version")
	if code != exitOK || errs != "" || !strings.HasPrefix(line, "softhca ") || !strings.HasSuffix(line, runtime.Version()+", "+runtime.GOOS+"/"+runtime.GOARCH+"\n") {
		t.Errorf("exit code %d, %q, %q", code, line, errs)
	}
	if _, flag, _ := command(t, "--version"); flag != line {
		t.Errorf("--version says %q, the command %q", flag, line)
	}
	_, text, _ := command(t, "version", "--json")
	var v version
	if err := json.Unmarshal([]byte(text), &v); err != nil || v != newVersion() {
		t.Errorf("%v: %s", err, text)
	}
	v = version{Version: "v1.2.3", Revision: "0123456789abcdef", Time: "2026-01-02T03:04:05Z", Modified: true, Go: "go1.26", Platform: "linux/amd64"}
	if want := "softhca v1.2.3, revision 0123456789ab of 2026-01-02T03:04:05Z, modified, go1.26, linux/amd64"; v.String() != want {
		t.Errorf("%v, want %s", v, want)
	}
}
