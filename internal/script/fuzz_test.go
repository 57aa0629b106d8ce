package script

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// FuzzRun runs arbitrary text: the runner and its adapter must end without a
// panic, and the resulting script must run in the same way.
func FuzzRun(f *testing.F) {
	files, err := filepath.Glob("testdata/*.qp")
	must.Do(f, err)
	for _, name := range files {
		text, err := os.ReadFile(name)
		must.Do(f, err)
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
