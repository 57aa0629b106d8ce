package script

import (
	"embed"
	"io/fs"
	"path"
	"slices"
	"strings"
)

//go:embed testdata/*.qp
var corpus embed.FS

// Names returns the names of the scripts that are built in, in order.
func Names() []string {
	files, _ := fs.Glob(corpus, "testdata/*.qp") // the pattern is right
	for i, f := range files {
		files[i] = strings.TrimSuffix(path.Base(f), ".qp")
	}
	slices.Sort(files)
	return files
}

// Text returns a script that is built in.
func Text(name string) (string, error) {
	b, err := corpus.ReadFile("testdata/" + name + ".qp")
	return string(b), err
}
