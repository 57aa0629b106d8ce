package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softhca/softhca/cmd/softhca/internal/perf"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

func TestFaultsCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.txt")
	must.Do(t, os.WriteFile(file, []byte("dup p=0.5 # twice\n"), 0o600))
	for _, c := range []struct {
		args []string
		code int
		want string // in the output of either kind
	}{
		{nil, exitOK, "Example: drop nth=3 op=RDMA_WRITE_MIDDLE dir=out"},
		{[]string{"--list"}, exitOK, "RESPONDER"},
		{[]string{"--list", "--json"}, exitOK, `"fault": "partition"`},
		{[]string{"drop nth=3", "delay 5ms op=ACK"}, exitOK, "loses the 3rd outgoing packet\ndelay 5ms op=ACK\n    delivers each packet in either direction"},
		{[]string{"--nasty"}, exitOK, "\n  placement\n      The bytes of a message are written"},
		{[]string{"--nasty", "--json"}, exitOK, `"name": "placement"`},
		{[]string{"--nasty", "drop"}, exitUsage, "--nasty takes no rules"},
		{[]string{"--nasty", "--list"}, exitUsage, "--nasty takes no rules"},
		{[]string{"--json", "drop every=22"}, exitOK, `[{"rule":"drop every=22","does":"loses every 22nd outgoing packet"}]`},
		{[]string{"--fault-file", file, "--fault", "drop"}, exitOK, "delivers each outgoing packet twice, with probability 0.5"},
		{[]string{"drop op=REP nth=1"}, exitOK, "drop nth=1 op=REP\n    loses the 1st packet in either direction with the CM message REP\n"},
		{[]string{"drop nht=3"}, exitUsage, "did you mean nth?\n  drop nht=3\n       ^"},
		{[]string{"--fault-file", file + "x"}, exitFailed, "no such file"},
	} {
		code, out, errs := command(t, append([]string{"faults"}, c.args...)...)
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("faults %q: exit code %d, want %d and %q:\n%s%s", c.args, code, c.code, c.want, out, errs)
		}
	}
}

// TestPerfFault loses one packet: it is retransmitted, and the summary says so. Either the
// next packet or a probe shows the loss, depending on the machine.
func TestPerfFault(t *testing.T) {
	code, out, errs := command(t, "perf", "write", "--local", "--json", "--duration", "100ms", "--addr", loopback(30),
		"--fault", "drop nth=100", "--fault-seed", "9")
	var s perf.Summary
	if err := json.Unmarshal([]byte(out), &s); err != nil || code != exitOK {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, errs)
	}
	if s.Client == nil || s.Server == nil || s.Client.Retransmits == 0 || s.Server.Gaps+s.Server.Duplicates == 0 || s.Client.Seed != 9 ||
		len(s.Client.Faults) != 1 || s.Client.Faults[0].Applied != 1 || s.Server.Faults != nil {
		t.Errorf("the summary is %s", out)
	}
	if text := s.String(); !strings.Contains(text, "drop nth=100: acted 1 time; 100 matches") || !strings.Contains(text, "seed 9") {
		t.Errorf("the text is %s", text)
	}
}

// TestPerfFails ends connections in several ways: the exit code and the story
// of both sides say so.
func TestPerfFails(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"write", "--fault", "drop p=1 dir=out after=100ms", "--timeout", "9ms", "--retry", "1"}, []string{
			"failed with RETRY_EXC_ERR", "local ACK timeout 16.8 ms (code 12) and 1 retry: 2 timeouts in a row make 33.6 ms",
			"requester:  sent", "its queue pairs: ERR", "responder:  received", "its queue pairs: RTS; it got no error",
		}},
		{[]string{"write", "--server-fault", "nak REMOTE_ACCESS nth=50"}, []string{
			"failed with REM_ACCESS_ERR", "the peer refused: NAK remote access error", "faults at the server",
		}},
		{[]string{"send", "--fault", "fillcq nth=50"}, []string{"failed with CQ_ERR", "its completion queue overflowed"}},
		{[]string{"send", "--latency", "--fault", "qp to=ERR nth=5"}, []string{"failed with WR_FLUSH_ERR"}},
		{[]string{"write", "--fault", "fail op=CreateCQ"}, []string{"fault on demand (fail op=CreateCQ)"}},
	} {
		line := append([]string{"perf", "--local", "--duration", "2s", "--addr", loopback(32)}, c.args...)
		code, out, errs := command(t, line...)
		for _, want := range c.want {
			if code != exitFailed || !strings.Contains(errs, want) {
				t.Errorf("%q: exit code %d, want %d and %q:\n%s%s", c.args, code, exitFailed, want, out, errs)
			}
		}
		if strings.Contains(errs, "the server:") {
			t.Errorf("%q: the server's end is told beside the client's: %s", c.args, errs)
		}
	}
	code, out, _ := command(t, "perf", "write", "--local", "--json", "--duration", "2s", "--addr", loopback(32), "--fault", "qp to=ERR nth=50")
	var f perf.Failure
	if err := json.Unmarshal([]byte(out), &f); err != nil || code != exitFailed || f.Status != "WR_FLUSH_ERR" || f.Server == nil {
		t.Errorf("as JSON: exit code %d, %v: %s", code, err, out)
	}
}

func TestPerfLossRatio(t *testing.T) {
	code, out, errs := command(t, "perf", "write", "--local", "--json", "--duration", "150ms", "--addr", loopback(34), "--loss-ratio", "0.01")
	var r lossRatio
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != exitOK {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, errs)
	}
	if r.Ratio <= 0 || r.Lossless.Client.Seed != 0 || r.Lossy.Client.Faults[0].Applied == 0 {
		t.Errorf("the result is %s", out)
	}
	code, out, errs = command(t, "perf", "write", "--local", "--duration", "50ms", "--addr", loopback(34), "--loss-ratio", "0.01")
	if code != exitOK || !strings.Contains(out, "of the payload rate with 1 % of packets lost each way") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
}

// TestFaultFlags checks that invalid options are refused before an adapter is
// opened or a program is run.
func TestFaultFlags(t *testing.T) {
	wrong, right := filepath.Join(t.TempDir(), "wrong"), filepath.Join(t.TempDir(), "right")
	for name, text := range map[string]string{wrong: "drop\ndorp\n", right: "drop\n"} {
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
	}
	for _, cmd := range [][]string{{"faults"}, {"demo"}, {"perf", "write", "--local"}} {
		if code, _, errs := command(t, append(cmd, "--fault-file", wrong)...); code != exitUsage || !strings.Contains(errs, "wrong: line 2: unknown fault") {
			t.Errorf("%s: a mistake in a file: exit code %d: %s", cmd, code, errs)
		}
	}
	capture := filepath.Join(filepath.Dir(wrong), "x.pcapng")
	must.Do(t, os.WriteFile(capture, []byte("\n\r\r\n\x00\x01"), 0o600))
	if code, _, errs := command(t, "demo", "--fault-file", capture); code != exitUsage || !strings.Contains(errs, "x.pcapng: want text with a rule on each line") || strings.Contains(errs, "\x00") {
		t.Errorf("a file that is no text: exit code %d: %q", code, errs)
	}
	for why, args := range map[string][]string{
		"no such fault":           {"perf", "write", "--local", "--fault", "dorp"},
		"no such fault there":     {"perf", "write", "--local", "--server-fault", "dorp"},
		"one seed of some":        {"sim", "--seed", "3", "--seeds", "1..2"},
		"a ratio for two hosts":   {"perf", "write", "--loss-ratio", "0.1", "127.0.0.1"},
		"a ratio with faults":     {"perf", "write", "--local", "--loss-ratio", "0.1", "--fault", "drop"},
		"a ratio with a file":     {"perf", "write", "--local", "--loss-ratio", "0.1", "--fault-file", right},
		"a ratio of all":          {"perf", "write", "--local", "--loss-ratio", "1"},
		"server faults elsewhere": {"perf", "write", "--server-fault", "drop"},
		"eight retries":           {"perf", "write", "--retry", "8"},
		"no timeout":              {"perf", "write", "--timeout", "0s"},
		"a day of timeout":        {"perf", "write", "--timeout", "24h"},
	} {
		if code, _, errs := command(t, args...); code != exitUsage {
			t.Errorf("%s: exit code %d, want %d: %s", why, code, exitUsage, errs)
		}
	}
	t.Setenv(verbs.FaultsEnv, "drop nth=9")
	if code, _, errs := command(t, "perf", "write", "--local", "--loss-ratio", "0.1"); code != exitUsage {
		t.Errorf("a ratio with faults of the environment: exit code %d, want %d: %s", code, exitUsage, errs)
	}
}

// TestDemoFault loses a packet of the demonstration, which reports the failed
// checks, and the rule that acted with its seed.
func TestDemoFault(t *testing.T) {
	code, out, errs := command(t, "demo", "--addr", loopback(38), "--peer", loopback(39), "--measure", "0s",
		"--fault", "drop nth=2 op=RC_SEND", "--fault-seed", "3")
	if code != exitFailed || !strings.Contains(out, "NOT TRUE") || !strings.Contains(errs, `fault "drop nth=2 op=RC_SEND" acted 1 time`+"\n") ||
		!strings.Contains(errs, "--fault-seed 3") {
		t.Errorf("exit code %d:\n%s%s", code, out, errs)
	}
}
