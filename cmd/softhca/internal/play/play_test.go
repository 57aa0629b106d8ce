package play

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/script"
)

// files has one file, which expects what does not happen, and one that is too
// long.
func files(name string) ([]byte, error) {
	switch name {
	case "mine.qp":
		return []byte("# title: t\n# covers: E1\nqp a RC\nwalk a INIT\n"), nil
	case "long":
		return make([]byte, maxText+1), nil
	}
	return nil, fs.ErrNotExist
}

// TestRun plays a script that is built in: its output has the packets and, at the
// end, what they brought about.
func TestRun(t *testing.T) {
	s, err := Find("e15_send_too_long", files)
	must.Do(t, err)
	var text, data bytes.Buffer
	must.Do(t, Run(&text, []Script{s}, false))
	for _, want := range []string{"> a RC_ACKNOWLEDGE psn=101 NAK_INVALID_REQUEST", "\nstatuses   LOC_LEN_ERR, WR_FLUSH_ERR\n", "\nrequester  REM_INV_REQ_ERR\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the output has no %q:\n%s", want, text.String())
		}
	}
	must.Do(t, Run(&data, []Script{s}, true))
	var got []outcome
	if err := json.Unmarshal(data.Bytes(), &got); err != nil || len(got) != 1 || got[0].Text != s.Text {
		t.Errorf("as JSON: %v, %+v", err, got)
	}
}

// TestRefuses checks that a script with other output than it says is an error,
// after the output is printed, and that the error about a missing script names
// it.
func TestRefuses(t *testing.T) {
	mine, err := Find("mine.qp", files)
	must.Do(t, err)
	var out bytes.Buffer
	if err := Run(&out, []Script{mine}, false); err == nil || !strings.Contains(out.String(), "a: RESET -> INIT") {
		t.Errorf("error %v, and the output is\n%s", err, out.String())
	}
	for _, name := range []string{"nobody", "long"} {
		if _, err := Find(name, files); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestList checks that each built-in script is listed.
func TestList(t *testing.T) {
	var out bytes.Buffer
	must.Do(t, List(&out, false))
	for _, name := range script.Names() {
		if !strings.Contains("\n"+out.String(), "\n"+name+" ") {
			t.Errorf("%s is not listed", name)
		}
	}
	if !strings.Contains(out.String(), "(WR_FLUSH_ERR, RNR_RETRY_EXC_ERR)") {
		t.Error("the list does not say what e12_rnr_exceeded provokes")
	}
}
