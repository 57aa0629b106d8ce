package check

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// FuzzRead reads any records: they make a report in each form.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"a", "b"} {
		b, err := os.ReadFile(filepath.Join("testdata", "records", name+Suffix))
		must.Do(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		must.Do(t, os.WriteFile(filepath.Join(dir, "0"+Suffix), text, 0o600))
		r, err := Read(dir, Options{Advice: true, DebugDir: dir})
		must.Do(t, err)
		var b bytes.Buffer
		must.Do(t, r.Text(&b, false))
		for _, c := range b.Bytes() {
			if c < ' ' && c != '\n' {
				t.Fatalf("the text has the control character %#x: %q", c, b.String())
			}
		}
		must.Do(t, r.JSON(io.Discard))
		must.Do(t, r.JUnit(io.Discard))
		must.Do(t, r.SARIF(io.Discard, dir, "v1.2.3"))
	})
}
