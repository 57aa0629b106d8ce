package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softhca/softhca/cmd/softhca/internal/tabletest"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/restrack/file"
)

// sampleTables makes tables of adapters, for what reads them.
func sampleTables(t *testing.T) *tabletest.World {
	t.Helper()
	t.Setenv(file.DirVariable, t.TempDir())
	w, err := tabletest.NewWorld()
	must.Do(t, err)
	w.Work()
	t.Cleanup(func() { must.Do(t, w.Close()) })
	return w
}

// TestW1_Top prints adapters: all of them, some rows, one table.
func TestW1_Top(t *testing.T) {
	w := sampleTables(t)
	for _, c := range []struct {
		line  string
		lines int
		want  string
	}{
		{"top --once", 6, "softhca1    4250 ib_write_bw 0x00002a RC   RTS      10.77.0.2"},
		{"top --once --interval 60ms", 6, "0x000012 UD   RTS      -          -             0"},
		{"top --once --filter rts", 4, "0x000011"},
		{"top --once --view adapters", 4, "duplicate 1"},
		{"top --once --view cm --sort local", 3, "LISTEN"},
		{"top --once --file " + w.Dead, 2, "dead SQD"},
	} {
		code, out, errs := command(t, strings.Fields(c.line)...)
		if code != exitOK || strings.Count(out, "\n") != c.lines || !strings.Contains(out, c.want) || errs != "" {
			t.Errorf("%s: exit code %d, want %d lines with %q\n%s%s", c.line, code, c.lines, c.want, out, errs)
		}
	}
	code, out, errs := command(t, "top")
	if code != exitFailed || out != "" || !strings.Contains(errs, "standard output is no terminal: use --once") {
		t.Errorf("without a terminal: exit code %d, %q, %s", code, out, errs)
	}
	text := filepath.Join(t.TempDir(), "text")
	must.Do(t, os.WriteFile(text, []byte(strings.Repeat("no table\n", 10000)), 0o600))
	for _, name := range []string{text, text + "none", t.TempDir()} {
		if code, out, errs := command(t, "top", "--once", "--file", name); code != exitFailed || out != "" || strings.Count(errs, "\n") != 1 || !strings.HasPrefix(errs, "softhca: top: --file: ") {
			t.Errorf("--file %s: exit code %d, %q, %s", name, code, out, errs)
		}
	}
}

// TestW1_TopOfNothing prints that no adapter is open, and no JSON but an empty array.
func TestW1_TopOfNothing(t *testing.T) {
	t.Setenv(file.DirVariable, t.TempDir())
	code, out, errs := command(t, "top", "--once")
	if code != exitOK || !strings.HasPrefix(out, "ADAPTER") || errs != "no program of this user has an adapter open\n" {
		t.Errorf("exit code %d, %q, %q", code, out, errs)
	}
	if code, out, errs := command(t, "top", "--once", "--json"); code != exitOK || out != "[]\n" || errs != "" {
		t.Errorf("as JSON: exit code %d, %q, %q", code, out, errs)
	}
}

// TestW1_TopForgedNames prints names that a process gave itself without their control characters.
func TestW1_TopForgedNames(t *testing.T) {
	t.Setenv(file.DirVariable, t.TempDir())
	table, err := tabletest.Create(tabletest.Process(9, "x\x1b[2J\u202e", "a\nVERDICT clean\x07", "10.77.0.2"))
	must.Do(t, err)
	t.Cleanup(func() { must.Do(t, table.Close()) })
	for _, line := range []string{"top --once --view adapters", "top --once --json"} {
		code, out, errs := command(t, strings.Fields(line)...)
		if clean(t, line, out); code != exitOK || errs != "" || !strings.Contains(out, `VERDICT`) {
			t.Errorf("%s: exit code %d, %q, %s", line, code, out, errs)
		}
	}
}
