package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

func TestJudgeLists(t *testing.T) {
	code, out, errs := command(t, "judge", "--list", "--run", "^(p01|c01|e14_region)")
	if code != exitOK {
		t.Fatalf("exit code %d, errors %q", code, errs)
	}
	for _, want := range []string{
		"p01_write_in_packets               responder\n", "not judged: the connection manager is that of the peer's system",
		"e14_region_goes                    responder; not all from line 31: it blocks the adapter's network",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the list lacks %q:\n%s", want, out)
		}
	}
}

func TestJudgePrintsTheAgent(t *testing.T) {
	code, out, _ := command(t, "judge", "--agent-source")
	if code != exitOK || !strings.Contains(out, "-libverbs") || !strings.Contains(out, "int main(") {
		t.Errorf("exit code %d and %d bytes, want a C program that says how it is compiled", code, len(out))
	}
}

func TestJudgeUsage(t *testing.T) {
	for want, args := range map[string][]string{
		"--run":              {"judge", "--list", "--run", "("},
		"no script has":      {"judge", "--list", "--run", "zzz"},
		"--peer":             {"judge", "--peer", "nonsense"},
		"want one of --peer": {"judge"},
		"greater than 0":     {"judge", "--list", "--quiet", "0"},
	} {
		code, _, errs := command(t, args...)
		if code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%v: exit code %d, errors %q, want usage with %q", args, code, errs, want)
		}
	}
}

func TestJudgeNobodyThere(t *testing.T) {
	code, _, errs := command(t, "judge", "--peer", "127.0.0.1", "--agent", "127.0.0.1:1")
	if code != exitFailed || !strings.Contains(errs, "is the test agent running there") {
		t.Errorf("exit code %d, errors %q", code, errs)
	}
}

func TestJudgePage(t *testing.T) {
	name := filepath.Join(t.TempDir(), "r.json")
	report := `{"schema":"softhca-judge/1","adapter":{"device":"dev0","kernel":"6.1"},"results":[{"script":"e08","verdict":"agrees"}]}`
	must.Do(t, os.WriteFile(name, []byte(report), 0o600))
	code, out, errs := command(t, "judge", "--page", name)
	if code != exitOK || !strings.Contains(out, "dev0, Linux 6.1: e08") {
		t.Errorf("exit code %d, errors %q:\n%s", code, errs, out)
	}
	if code, _, _ := command(t, "judge", "--page", name+".not"); code != exitFailed {
		t.Errorf("a report that is not there: exit code %d", code)
	}
}
