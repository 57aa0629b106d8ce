package golden

import (
	"flag"
	"os"
	"strings"

	"github.com/softhca/softhca/internal/must"
)

var rewrite = flag.Bool("rewrite", false, "write the files that the tests compare with")

// Check marks the test as failed, and shows the first line that differs, if a file does not
// contain got. With -rewrite it writes got to the file.
func Check[T string | []byte](t must.T, file string, got T) {
	t.Helper()
	if *rewrite {
		must.Do(t, os.WriteFile(file, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(file)
	must.Do(t, err)
	compare(t, file, string(got), string(want))
}

func compare(t must.T, file, got, want string) {
	t.Helper()
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Errorf("%s:%d differs (go test -rewrite accepts it)\n got %s\nwant %s", file, i+1, g[i], w[i])
			return
		}
	}
	if len(g) != len(w) {
		t.Errorf("%s has %d lines, and there are %d now (go test -rewrite accepts it)", file, len(w), len(g))
	}
}
