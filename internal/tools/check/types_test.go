package main

import (
	"errors"
	"strings"
	"testing"
)

// TestTypeCheck has a module with errors in a file of one system only, and in a test.
func TestTypeCheck(t *testing.T) {
	dir := writeModule(t, map[string]string{
		"a.go":         "package m\n\nimport \"fmt\"\n\nfunc f() { fmt.Println(g()) }\n",
		"g.go":         "//go:build !windows && !portable\n\npackage m\n\nfunc g() int { return 1 }\n",
		"g_windows.go": "package m\n\nfunc g() int { return \"one\" }\n",
		"g_port.go":    "//go:build portable && !windows\n\npackage m\n\nfunc g() int { return 1 }\n",
		"p_test.go":    "//go:build portable\n\npackage m\n\nvar _ string = g()\n",
	})
	wrong := map[string]string{"windows": "g_windows.go:3", "portable": "p_test.go:5"}
	for _, p := range platforms() {
		out, err := p.typeCheck(t.Context(), dir)
		if where := wrong[p.name]; (where != "") != errors.Is(err, errTypes) || !strings.Contains(out, where) {
			t.Errorf("%s: %v, %s", p.name, err, out)
		}
	}
}
