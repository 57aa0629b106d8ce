package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/interop/matrix"
	"github.com/softhca/softhca/interop/suite"
)

func example() *Report {
	return &Report{
		Date: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), Host: "QEMU 7",
		Peers: []Peer{{Kernel: "6.1", Release: "6.1.0-1-amd64", Packages: map[string]string{"rdmacm-utils": "44.0-2", "bash": "5"}}},
		Families: []suite.Family{
			{Name: "rping", About: "pings", Dims: []matrix.Dim{matrix.Direction(), matrix.IP()}},
			{Name: "lost", About: "losses.", Loose: suite.Gone, Dims: []matrix.Dim{matrix.Direction()}}, {Name: "none", About: "not run"},
		},
		Results: []suite.Result{
			{ID: "rping/6.1/server/ipv4", Family: "rping", Values: map[string]string{"kernel": "6.1", "dir": "server", "ip": "ipv4"}, Verdict: suite.Pass, Sent: 3, Got: 4, Accepted: 3, Late: 2, Exact: true, Messages: 7},
			{ID: "rping/6.1/client/ipv4", Family: "rping", Values: map[string]string{"kernel": "6.1", "dir": "client", "ip": "ipv4"}, Verdict: suite.Fail, Note: "a|b\n<c>", Sent: 5, Got: 6, Accepted: 6, Exact: true, Messages: 8, Verified: 8},
			{ID: "lost/6.1/client", Family: "lost", Values: map[string]string{"kernel": "6.1", "dir": "client"}, Verdict: suite.Expected, Note: "why", Measured: "7 s"},
			{ID: "lost/6.1/server", Family: "lost", Values: map[string]string{"kernel": "6.1", "dir": "server"}, Verdict: suite.Pass, Messages: 20, Verified: 20},
		},
	}
}

func TestMarkdown(t *testing.T) {
	text := string(example().markdown())
	for _, want := range []string{
		"on 2030-01-02;", "| 6.1 | 6.1.0-1-amd64 | rdmacm-utils 44.0-2 |\n", "4 cases: 2 passed, 1 differ for a known reason, 1 failed.",
		"8 packets from us and 10 from Linux",
		"in the 1 cases without faults in which all programs end by themselves Linux sent 4 packets: our adapters counted 3 of them as accepted", "the other 1 came when our program had ended",
		"35 messages were on the wire", "; 20 of them in cases in which packets are lost",
		"## rping\n\npings.\n\n| kernel | ours | IP | result | note |\n|---|---|---|---|---|\n| 6.1 | server | ipv4 | pass |  |\n| 6.1 | client | ipv4 | FAIL | a\\|b &lt;c> |\n",
		"## lost\n\nlosses. Packets for queue pairs that have just ended are counted as accepted by neither side.\n\n| kernel | ours | result | note | measured |\n|---|---|---|---|---|\n| 6.1 | client | expected | why | 7 s |\n| 6.1 | server | pass |  |  |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report has no %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "## none") {
		t.Error("a family of which no case ran has a heading")
	}
}

// TestReplace: the report names the failed cases that were repeated, even if they fail again.
func TestReplace(t *testing.T) {
	r := example()
	if got, want := r.Failed(), `^(?:rping/6\.1/client/ipv4)$`; got != want {
		t.Errorf("%q failed, want %q", got, want)
	}
	again := r.Results[1]
	r.Replace([]suite.Result{again})
	if again.Verdict, again.Note = suite.Pass, ""; r.Failed() == "" {
		t.Error("a case that fails again is lost")
	}
	r.Replace([]suite.Result{again, {ID: "rping/6.12/client/ipv4", Verdict: suite.Pass}})
	if got := r.Failed(); got != "" || len(r.Results) != 4 {
		t.Errorf("%q failed, of %d cases", got, len(r.Results))
	}
	text := string(r.markdown())
	for _, want := range []string{"| 6.1 | client | ipv4 | pass |  |\n", "4 cases: 3 passed,", "whose results are below: `rping/6.1/client/ipv4`.\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report has no %q:\n%s", want, text)
		}
	}
	if strings.Contains(string(example().markdown()), "repeated one at a time") {
		t.Error("the report of one run names repeated cases")
	}
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	md, js := filepath.Join(dir, "x.md"), filepath.Join(dir, "x.json")
	must.Do(t, example().Write(md, js))
	text, err := os.ReadFile(js)
	must.Do(t, err)
	var back Report
	if err := json.Unmarshal(text, &back); err != nil || len(back.Results) != 4 || back.Results[2].Measured != "7 s" {
		t.Errorf("%v: %+v", err, back)
	}
	if back, err := Read(js); err != nil || len(back.Results) != 4 || back.Failed() == "" {
		t.Errorf("%v: %+v", err, back)
	}
	if _, err := Read(md); err == nil {
		t.Error("Markdown is read as JSON")
	}
	if text, err := os.ReadFile(md); err != nil || string(text) != string(example().markdown()) {
		t.Errorf("the report differs: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%d files are left: %v", len(left), err)
	}
	if err := example().Write("", ""); err != nil {
		t.Errorf("without files there is nothing to write: %v", err)
	}
	if err := example().Write(filepath.Join(dir, "no/such"), ""); err == nil {
		t.Error("a directory that is not there is no error")
	}
}
