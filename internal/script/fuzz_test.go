package script

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzRun runs arbitrary text: the runner and its adapter must end without a
// panic, and the resulting script must run in the same way.
func FuzzRun(f *testing.F) {
	files, err := filepath.Glob("testdata/*.qp")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "00000") {
			t.Skip() // big numbers ask for much memory and time, not for other code
		}
		r, err := Run("fuzz.qp", text)
		if err != nil && strings.Contains(err.Error(), "panicked") {
			t.Fatal(err)
		}
		if r.Text == "" {
			return
		}
		again, _ := Run("fuzz.qp", r.Text)
		if again.Text != r.Text {
			t.Errorf("the script\n%s\nruns as\n%s", r.Text, again.Text)
		}
	})
}
