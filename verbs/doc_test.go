package verbs

import (
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// TestDocHasTheProgram compares the program in the package's documentation with
// examples/send, which is compiled and whose test runs it.
func TestDocHasTheProgram(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments|parser.PackageClauseOnly)
	must.Do(t, err)
	var shown strings.Builder
	for line := range strings.Lines(f.Doc.Text()) {
		if code, ok := strings.CutPrefix(line, "\t"); ok {
			shown.WriteString(code)
		} else if line == "\n" && shown.Len() > 0 {
			shown.WriteString(line) // between two paragraphs of code, or after the last
		}
	}
	program, err := os.ReadFile("../examples/send/main.go")
	must.Do(t, err)
	if got, want := strings.TrimSpace(shown.String()), strings.TrimSpace(string(program)); got != want {
		t.Errorf("doc.go shows\n%s\nwhere examples/send/main.go is\n%s", got, want)
	}
}
