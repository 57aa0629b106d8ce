package main

import (
	"strings"
	"testing"
)

// TestCompletion asks as a shell does what may come next.
func TestCompletion(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"per|", "perf"},
		{"perf |", "write-imm"},
		{"perf write --type |", "ud"},
		{"perf write --mtu |", "4096"},
		{"pingpong --type |", "srq"},
		{"states --type |", "gsi"},
		{"demo --transport |", "raw"},
		{"demo --log-level |", "debug"},
		{"demo --addr |", "127.0.0.1"},
		{"run --addr |", "127.0.0.2"},
		{"perf write --static-rate |", "2.5"},
		{"decode --op |", "RNR"},
		{"decode --op |", "RC_SEND_ONLY"},
		{"play e08|", "e08_retries_exceeded"},
		{"explain --live |", "lo"},
		{"ucmatose -f |", "ipv6"},
		{"sim --|", "--profile"},
	} {
		args := append([]string{"__complete"}, strings.Split(strings.TrimSuffix(c.line, "|"), " ")...)
		code, out, _ := command(t, args...)
		found := false
		for line := range strings.Lines(out) {
			word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			found = found || word == c.want
		}
		if code != exitOK || !found {
			t.Errorf("%s: exit code %d, no %s in\n%s", c.line, code, c.want, out)
		}
	}
	for line, not := range map[string]string{"sim --": "--addr", "decode --": "--capture", "--": "--fault", "completion bash --": "--addr"} {
		if _, out, _ := command(t, append([]string{"__complete"}, strings.Fields(line)...)...); strings.Contains(out, not+"\t") {
			t.Errorf("%s is completed by %s, which would be refused:\n%s", line, not, out)
		}
	}
	if _, out, _ := command(t, "--help"); !strings.Contains(out, "completion") {
		t.Error("help does not tell of completion")
	}
	if code, out, errs := command(t, "completion", "bash"); code != exitOK || errs != "" || !strings.Contains(out, "complete") {
		t.Errorf("exit code %d, %q", code, errs)
	}
}
