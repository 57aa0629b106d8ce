package launch

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/libraries"
	"github.com/softhca/softhca/internal/must"
)

// rdmaCore compiles two versions of libibverbs.so.1, ours in the directory softhca of dir
// and a later one in the directory later, providers that were linked with the later one, and
// a program for each provider.
func rdmaCore(t *testing.T) (dir string) {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no C compiler: install gcc") // the test compiles its libraries
	}
	dir = t.TempDir()
	const stated, known = "IBVERBS_1.1 { global: ibv_open; };\n", "IBVERBS_PRIVATE_1 { global: ibv_cmd_old; };\n"
	for name, text := range map[string]string{
		"softhca/map": stated + known,
		"softhca/l.c": "void ibv_open(void) {} void ibv_cmd_old(void) {}",
		"later/map":   stated + "IBVERBS_PRIVATE_1 { global: ibv_cmd_old; ibv_cmd_more; };\nIBVERBS_PRIVATE_2 { global: ibv_cmd_new; };\n",
		"later/l.c":   "void ibv_open(void) {} void ibv_cmd_old(void) {} void ibv_cmd_more(void) {} void ibv_cmd_new(void) {}",
		"fits.c":      "void ibv_open(void), ibv_cmd_old(void); void f(void) { ibv_open(); ibv_cmd_old(); }",
		"symbol.c":    "void ibv_cmd_more(void); void f(void) { ibv_cmd_more(); }",
		"version.c":   "void ibv_cmd_new(void); void f(void) { ibv_cmd_new(); }",
		"weak.c":      "void __attribute__((weak)) ibv_cmd_more(void); void f(void) { if (ibv_cmd_more) ibv_cmd_more(); }",
		"main.c":      "void f(void); int main(void) { f(); }",
	} {
		name = filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(name), 0o700))
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
	}
	compile := func(args ...string) {
		t.Helper()
		cmd := exec.Command(gcc, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("gcc %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	for _, d := range []string{"softhca", "later"} {
		compile("-shared", "-fPIC", "-o", d+"/"+libraries.Verbs, d+"/l.c", "-Wl,--version-script="+d+"/map", "-Wl,-soname,"+libraries.Verbs)
	}
	for name, bind := range map[string]string{"fits": "now", "symbol": "now", "version": "lazy", "weak": "now", "lazy": "lazy"} {
		source := name + ".c"
		if name == "lazy" {
			source = "symbol.c"
		}
		provider := fmt.Sprintf("lib%s.so.1", name)
		compile("-shared", "-fPIC", "-o", provider, source, "later/"+libraries.Verbs, "-Wl,-z,"+bind, "-Wl,-soname,"+provider)
		compile("-o", name, "main.c", provider, "-Wl,-rpath,$ORIGIN", "-Wl,--allow-shlib-undefined")
	}
	return dir
}

// A program that the loader would not start, because our libibverbs lacks symbols that its
// libraries need, is refused with advice. If the program may still run, there is only
// a warning.
func TestSymbols(t *testing.T) {
	dir := rdmaCore(t)
	ours := filepath.Join(dir, "softhca")
	for _, c := range []struct{ name, says, refused string }{
		{name: "fits"},
		{name: "weak"},
		{name: "lazy", says: "liblazy.so.1 needs ibv_cmd_more (version IBVERBS_PRIVATE_1)"},
		{name: "symbol", refused: "libsymbol.so.1 needs ibv_cmd_more (version IBVERBS_PRIVATE_1)"},
		{name: "version", refused: "libversion.so.1 needs ibv_cmd_new (version IBVERBS_PRIVATE_2)"},
	} {
		p, err := inspect(filepath.Join(dir, c.name))
		must.Do(t, err)
		var said strings.Builder
		o := Options{Say: func(format string, args ...any) { fmt.Fprintf(&said, format+"\n", args...) }}
		err = o.fits(p, []string{"LD_LIBRARY_PATH=" + ours})
		switch {
		case (err != nil) != (c.refused != ""), err != nil && !strings.Contains(err.Error(), c.refused):
			t.Errorf("%s: %v, want %q", c.name, err, c.refused)
		case err != nil && !strings.Contains(err.Error(), "update softhca"):
			t.Errorf("%s: the error does not say what to do: %v", c.name, err)
		case (said.Len() > 0) != (c.says != ""), !strings.Contains(said.String(), c.says):
			t.Errorf("%s: it says %q, want %q", c.name, &said, c.says)
		}
		if c.refused == "" {
			continue
		}
		// The loader agrees.
		cmd := exec.Command(filepath.Join(dir, c.name))
		cmd.Env = []string{"LD_LIBRARY_PATH=" + ours}
		if out, err := cmd.CombinedOutput(); err == nil {
			t.Errorf("%s starts: %s", c.name, out)
		}
	}
}

// Only glibc's loader is traced: another one would start the program.
func TestIsTraceable(t *testing.T) {
	for loader, want := range map[string]bool{
		"/lib64/ld-linux-x86-64.so.2": true, "/lib/ld-linux-aarch64.so.1": true, "/lib64/ld64.so.2": true, "/lib/ld64.so.1": true,
		"/lib/ld-musl-x86_64.so.1": false, "/lib/ld64-uClibc.so.0": false, "/system/bin/linker64": false, "": false,
	} {
		if isTraceable(loader) != want {
			t.Errorf("%q: %v", loader, !want)
		}
	}
}
