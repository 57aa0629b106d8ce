package fault

import (
	"flag"
	"os"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write docs/faults.md anew")

// TestDocumentation compares docs/faults.md with the catalogue.
func TestDocumentation(t *testing.T) {
	const name = "../../../docs/faults.md"
	if *rewrite {
		if err := os.WriteFile(name, []byte(Markdown()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != Markdown() {
		t.Errorf("%s is not what the catalogue says: go test -rewrite", name)
	}
}
