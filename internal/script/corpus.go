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

// Names returns the names of the built-in scripts, sorted.
func Names() []string {
	files, _ := fs.Glob(corpus, "testdata/*.qp") // cannot fail: the pattern is valid
	for i, f := range files {
		files[i] = strings.TrimSuffix(path.Base(f), ".qp")
	}
	slices.Sort(files)
	return files
}

// Text returns a built-in script.
func Text(name string) (string, error) {
	b, err := corpus.ReadFile("testdata/" + name + ".qp")
	return string(b), err
}
