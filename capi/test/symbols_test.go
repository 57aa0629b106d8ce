//go:build linux && cgo

package test

import (
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// newestGLIBC is the newest C library version that the libraries may need.
const newestGLIBC = 34

// wantSymbols checks that the library exports what the libraries of rdma-core 44 to 65 export,
// with the same versions; that it loads with glibc 2.34; and that it cannot ask the kernel for
// devices: programs find only our adapters, whatever the host has.
func wantSymbols(t *testing.T, b *builds) {
	library := filepath.Join(b.dir, plain.name, "libibverbs.so.1")
	f, err := elf.Open(library)
	must.Do(t, err)
	defer func() { _ = f.Close() }() // read only
	if name, err := f.DynString(elf.DT_SONAME); err != nil || !slices.Equal(name, []string{"libibverbs.so.1"}) {
		t.Errorf("it says that it is %q, %v", name, err)
	}
	wantExports(t, f)
	libs, err := f.ImportedLibraries()
	imported, err2 := f.ImportedSymbols()
	if err = errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	for _, l := range libs {
		if l != "libc.so.6" && !strings.HasPrefix(l, "ld-linux") {
			t.Errorf("it needs %s: want the C library only, none that speaks netlink", l)
		}
	}
	for _, s := range imported {
		if s.Name == "socket" || s.Name == "sendmsg" || s.Name == "sendto" || s.Name == "ioctl" {
			t.Errorf("it calls %s: it might ask the kernel for devices", s.Name)
		}
	}
	wantOldGLIBC(t, library, imported)
	engine := filepath.Join(b.dir, engineFile)
	e, err := elf.Open(engine)
	must.Do(t, err)
	defer func() { _ = e.Close() }() // read only
	if imported, err = e.ImportedSymbols(); err != nil {
		t.Fatal(err)
	}
	wantOldGLIBC(t, engine, imported)
}

// suites are the suites of Debian whose symbols are in testdata/symbols.
var suites = []string{"bookworm", "trixie", "sid"}

// privateVersions are the versions of libibverbs' private symbols since rdma-core 35. Each
// version has its own function that registers providers.
var privateVersions = []string{"34", "57", "59", "64", "65"}

const (
	private  = "IBVERBS_PRIVATE_"
	register = "verbs_register_driver_"
)

// recorded holds the symbols in a file of testdata/symbols, as "version name": the exports of the
// suite's own library, and the imports of packages.
type recorded struct {
	exports []string
	imports map[string]string // the packages, by the symbol
}

func readSymbols(t *testing.T, suite string) *recorded {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/symbols", suite+".txt"))
	must.Do(t, err)
	r := &recorded{imports: map[string]string{}}
	for line := range strings.Lines(string(text)) {
		switch what, rest, _ := strings.Cut(strings.TrimSpace(line), " "); what {
		case "export":
			r.exports = append(r.exports, rest)
		case "import":
			symbol, packages, _ := strings.Cut(rest, ": ")
			r.imports[symbol] = packages
		}
	}
	if len(r.exports) == 0 || len(r.imports) == 0 {
		t.Fatalf("%s: %d exports, %d imports", suite, len(r.exports), len(r.imports))
	}
	return r
}

// wanted returns the symbols that the library must export for a suite: those of the suite's own
// library, with each private symbol under every private version. It leaves out versions before
// 1.1 of functions that have a later one: only programs from before 2007 use them.
func (r *recorded) wanted() []string {
	var want []string
	for _, symbol := range r.exports {
		version, name, _ := strings.Cut(symbol, " ")
		switch {
		case version == "IBVERBS_1.0" && slices.Contains(r.exports, "IBVERBS_1.1 "+name):
		case strings.HasPrefix(name, register):
		case strings.HasPrefix(version, private):
			for _, v := range privateVersions {
				want = append(want, private+v+" "+name)
			}
		default:
			want = append(want, symbol)
		}
	}
	for _, v := range privateVersions {
		want = append(want, private+v+" "+register+v)
	}
	return want
}

// wantExports compares the exports of the library with those of the libraries of Debian's suites,
// and with the imports of their packages.
func wantExports(t *testing.T, f *elf.File) {
	t.Helper()
	symbols, err := f.DynamicSymbols()
	must.Do(t, err)
	have, want := map[string]bool{}, map[string]bool{}
	for _, s := range symbols {
		if s.Section == elf.SHN_UNDEF || s.Section == elf.SHN_ABS {
			continue
		}
		have[s.Version+" "+s.Name] = true
		data := s.Name == "verbs_allow_disassociate_destroy"
		if is := elf.ST_TYPE(s.Info) == elf.STT_OBJECT; is != data {
			t.Errorf("%s is data: %v, want %v", s.Name, is, data)
		}
	}
	for _, suite := range suites {
		r := readSymbols(t, suite)
		for _, s := range r.wanted() {
			want[s] = true
		}
		for s, packages := range r.imports {
			if !have[s] {
				t.Errorf("it lacks %s, which these packages of %s need: %s", s, suite, packages)
			}
		}
	}
	for s := range want {
		if !have[s] {
			t.Errorf("it does not export %s", s)
		}
	}
	for s := range have {
		if !want[s] {
			t.Errorf("it exports %s, which rdma-core's does not", s)
		}
	}
}

func wantOldGLIBC(t *testing.T, library string, imported []elf.ImportedSymbol) {
	t.Helper()
	if len(imported) == 0 {
		t.Errorf("%s needs nothing", library)
	}
	for _, s := range imported {
		v, ok := strings.CutPrefix(s.Version, "GLIBC_2.")
		v, _, _ = strings.Cut(v, ".")
		if n, err := strconv.Atoi(v); ok && (err != nil || n > newestGLIBC) {
			t.Errorf("%s needs %s of %s", library, s.Name, s.Version)
		}
	}
}

// seeNames checks the names of statuses, events and states, and the rates, against those of
// rdma-core 44 in testdata/names.txt.
func seeNames(t *testing.T, s *stand) {
	out, err := s.run(t, "names")
	want, err2 := os.ReadFile("testdata/names.txt")
	if err = errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	if have, want := strings.Split(out, "\n"), strings.Split(string(want), "\n"); !slices.Equal(have, want) {
		for i := range min(len(have), len(want)) {
			if have[i] != want[i] {
				t.Errorf("line %d is %q, want %q", i+1, have[i], want[i])
			}
		}
		t.Errorf("%d lines, want %d", len(have), len(want))
	}
}
