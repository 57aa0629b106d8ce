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
)

// newestGLIBC is the newest version of the C library, 2.34, that the libraries may
// need.
const newestGLIBC = 34

// wantSymbols wants the library to export what that of rdma-core 44 does, under
// the same versions, to load wherever glibc 2.34 is, and to have no way to ask the
// kernel for devices: whatever the host has, programs find ours alone.
func wantSymbols(t *testing.T, b *builds) {
	library := filepath.Join(b.dir, plain.name, "libibverbs.so.1")
	f, err := elf.Open(library)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // only read
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
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }() // only read
	if imported, err = e.ImportedSymbols(); err != nil {
		t.Fatal(err)
	}
	wantOldGLIBC(t, engine, imported)
}

// wantExports compares what a library exports with testdata/symbols.txt.
func wantExports(t *testing.T, f *elf.File) {
	t.Helper()
	text, err := os.ReadFile("testdata/symbols.txt")
	if err != nil {
		t.Fatal(err)
	}
	var want, have []string
	for line := range strings.Lines(string(text)) {
		if line[0] != '#' {
			want = append(want, strings.TrimSpace(line))
		}
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if s.Section == elf.SHN_UNDEF || s.Section == elf.SHN_ABS {
			continue
		}
		have = append(have, s.Version+" "+s.Name)
		data := s.Name == "verbs_allow_disassociate_destroy"
		if is := elf.ST_TYPE(s.Info) == elf.STT_OBJECT; is != data {
			t.Errorf("%s is data: %v, want %v", s.Name, is, data)
		}
	}
	slices.Sort(want)
	slices.Sort(have)
	for _, s := range want {
		if _, ok := slices.BinarySearch(have, s); !ok {
			t.Errorf("it does not export %s", s)
		}
	}
	for _, s := range have {
		if _, ok := slices.BinarySearch(want, s); !ok {
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
