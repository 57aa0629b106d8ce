package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestCMStates(t *testing.T) {
	code, out, errs := command(t, "cm-states", "--state", "req_sent")
	if code != exitOK || errs != "" || !strings.Contains(out, "REQ_SENT (active)") || strings.Contains(out, "TIMEWAIT (") {
		t.Errorf("exit code %d, %q\n%s", code, errs, out)
	}
	if code, out, _ = command(t, "cm-states", "--format", "JSON"); code != exitOK || !json.Valid([]byte(out)) {
		t.Errorf("JSON: exit code %d\n%s", code, out)
	}
	if code, out, _ = command(t, "cm-states", "--format", "dot"); code != exitOK || !strings.HasPrefix(out, "digraph") {
		t.Errorf("dot: exit code %d\n%s", code, out)
	}
	for _, args := range [][]string{{"cm-states", "--state", "CONNECTED"}, {"cm-states", "--format", "xml"}, {"cm-states", "now"}} {
		code, out, errs = command(t, args...)
		if code != exitUsage || out != "" || !strings.Contains(errs, "--help") {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", args, code, out, errs)
		}
	}
}
