package launch

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric/sandbox"
	"github.com/softhca/softhca/internal/must"
)

// header is the head of an ELF file with at most one program header, a loader's name.
func header(t *testing.T, class elf.Class, machine elf.Machine, loader string) []byte {
	t.Helper()
	const headerLen, progLen = 64, 56
	b := append([]byte(elf.ELFMAG), byte(class), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT))
	b = append(b, make([]byte, headerLen+progLen-len(b))...)
	le := binary.LittleEndian
	le.PutUint16(b[16:], uint16(elf.ET_EXEC))
	le.PutUint16(b[18:], uint16(machine))
	le.PutUint32(b[20:], uint32(elf.EV_CURRENT))
	if class == elf.ELFCLASS32 {
		return b
	}
	le.PutUint64(b[32:], headerLen)
	le.PutUint16(b[54:], progLen)
	if loader == "" {
		return b
	}
	le.PutUint16(b[56:], 1)
	p := b[headerLen:]
	le.PutUint32(p, uint32(elf.PT_INTERP))
	le.PutUint64(p[8:], headerLen+progLen)
	le.PutUint64(p[32:], uint64(len(loader)+1))
	return append(append(b, loader...), 0)
}

func TestInspect(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		t.Helper()
		name = filepath.Join(dir, name)
		must.Do(t, os.WriteFile(name, b, 0o700))
		return name
	}
	here := machines[runtime.GOARCH]
	static := write("static", header(t, elf.ELFCLASS64, here, ""))
	for _, c := range []struct {
		path, want string
	}{
		{write("glibc", header(t, elf.ELFCLASS64, here, "/lib64/ld-linux-x86-64.so.2")), ""},
		{write("musl", header(t, elf.ELFCLASS64, here, "/lib/ld-musl-x86_64.so.1")), "musl"},
		{static, "linked statically"},
		{write("foreign", header(t, elf.ELFCLASS64, elf.EM_68K, "/lib/ld.so.1")), "is for EM_68K (ELFCLASS64)"},
		{write("small", header(t, elf.ELFCLASS32, elf.EM_386, "")), "is for EM_386 (ELFCLASS32)"},
		{write("script", []byte("#! "+static+" -x\n")), "linked statically"},
		{write("env", []byte("#!/usr/bin/env -S A=1 "+static+" -x\n")), "linked statically"},
		{write("loop", []byte("#!"+filepath.Join(dir, "loop"))), ""},
		{write("bare", []byte("echo hello\n")), ""},
		{write("empty", nil), ""},
		{write("nobody", []byte("#!\n")), ""},
		{"/bin/sh", ""},
	} {
		p, err := inspect(c.path)
		if err != nil {
			t.Errorf("%s: %v", c.path, err)
			continue
		}
		if said := strings.Join(p.warnings, "\n"); !strings.Contains(said, c.want) || (said == "") != (c.want == "") {
			t.Errorf("%s: said %q, want %q", c.path, said, c.want)
		}
	}
	if _, err := inspect(write("lost", []byte("#!/no/such/interpreter\n"))); err == nil {
		t.Error("an interpreter that is not there is not missed")
	}
}

// TestSecure finds the programs that the loader takes no libraries for.
func TestSecure(t *testing.T) {
	name := filepath.Join(t.TempDir(), "program")
	must.Do(t, errors.Join(os.WriteFile(name, []byte("x"), 0o700), os.Chmod(name, os.ModeSetuid|0o755)))
	if _, err := inspect(name); err != nil {
		t.Errorf("a program that is set to run as this user: %v", err)
	}
	if os.Getuid() == 0 {
		must.Do(t, errors.Join(os.Chown(name, 12345, -1), os.Chmod(name, os.ModeSetuid|0o755)))
	} else if name = "/usr/bin/su"; !isSetuid(name) {
		// Only root can make one.
		t.Skip("no program here that is set to run as another user")
	}
	if _, err := inspect(name); !errors.Is(err, ib.EPERM) || !strings.Contains(err.Error(), "set to run as user") {
		t.Errorf("a program that is set to run as another user: %v", err)
	}
}

func isSetuid(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode()&os.ModeSetuid != 0
}

func TestEnvironment(t *testing.T) {
	env, err := overLibraries([]string{"A=1", "LD_LIBRARY_PATH=/x::/y", "LD_PRELOAD=/p.so q.so"}, "/lib/softhca")
	want := []string{"A=1", "LD_LIBRARY_PATH=/lib/softhca:/x:/y", "LD_PRELOAD=/lib/softhca/libsofthca-preload.so:/p.so:q.so"}
	if err != nil || !slices.Equal(env, want) {
		t.Errorf("%q, %v", env, err)
	}
	if again, err := overLibraries(env, "/lib/softhca"); err != nil || !slices.Equal(again, want) {
		t.Errorf("once more: %q, %v", again, err)
	}
	if got := watchingMemory(env, "/lib/softhca"); !slices.Equal(got, env) {
		t.Errorf("without --check: %q", got)
	}
	want = append(want[:2:2], "LD_PRELOAD=/lib/softhca/libsofthca-memory.so:/lib/softhca/libsofthca-preload.so:/p.so:q.so", CheckEnv+"=error")
	if got := watchingMemory(append(env, CheckEnv+"=error"), "/lib/softhca"); !slices.Equal(got[:2], want[:2]) || get(got, "LD_PRELOAD") != get(want, "LD_PRELOAD") {
		t.Errorf("with --check: %q", got)
	}
	if env, err = overLibraries(nil, "/lib"); err != nil || env[0] != "LD_LIBRARY_PATH=/lib" {
		t.Errorf("into nothing: %q, %v", env, err)
	}
	for _, dir := range []string{"/a b", "/a:b", "/a;b"} {
		if _, err := overLibraries(nil, dir); !errors.Is(err, ib.EINVAL) {
			t.Errorf("%q: %v", dir, err)
		}
	}
	if env := besideSanitizer(besideSanitizer(nil)); get(env, "ASAN_OPTIONS") != "verify_asan_link_order=0:verify_asan_link_order=0" {
		t.Errorf("%q", env)
	}
}

func TestParseLocal(t *testing.T) {
	little := binary.NativeEndian.Uint16([]byte{1, 0}) == 1
	for text, want := range map[string]string{
		"0100007F:12B7":                         "127.0.0.1:4791",
		"00000000:0035":                         "0.0.0.0:53",
		"00000000000000000000000001000000:12B7": "[::1]:4791",
		"0000000000000000FFFF00000100007F:12B7": "127.0.0.1:4791",
		"0100007F":                              "", "xx:12B7": "", "01:12B7": "", "0100007F:123456": "", "": "",
	} {
		got, ok := parseLocal(text)
		if ok != (want != "") || little && ok && got.String() != want {
			t.Errorf("%q is %v, want %q", text, got, want)
		}
	}
}

// TestFreeAddress has many look for an address at once: each gets one of its own.
func TestFreeAddress(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	taken, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.2:4791")))
	must.Do(t, err)
	const many = 20
	var wg sync.WaitGroup
	var mu sync.Mutex // guards found
	found := map[string]*os.File{}
	for range many {
		wg.Go(func() {
			a, f, _, err := freeAddress()
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if found[a.String()] != nil {
				t.Errorf("%v was given twice", a)
			}
			found[a.String()] = f
		})
	}
	wg.Wait()
	if found["127.0.0.2"] != nil || len(found) != many {
		t.Errorf("%d addresses, that of another program among them: %v", len(found), found["127.0.0.2"] != nil)
	}
	f := found["127.0.0.1"]
	if f == nil {
		t.Fatal("the first address was not given")
	}
	must.Do(t, f.Close())
	if a, again, _, err := freeAddress(); err != nil || a.String() != "127.0.0.1" {
		t.Errorf("an address that was given back is not the first: %v, %v", a, err)
	} else if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	who := fmt.Sprintf("(process %d)", os.Getpid())
	if text := busy(netip.MustParseAddr("127.0.0.2")).Error(); !strings.Contains(text, who) {
		t.Errorf("%q does not name %s", text, who)
	}
	must.Do(t, taken.Close())
	all, err := net.ListenUDP("udp4", &net.UDPAddr{Port: rocePort})
	must.Do(t, err)
	if _, _, _, err := freeAddress(); !errors.Is(err, unix.EADDRINUSE) || !strings.Contains(err.Error(), who) {
		t.Errorf("one that has the port of all addresses: %v", err)
	}
	_ = all.Close() // it was only in the way
}

// TestReservedNames has another process reserve 1,100 addresses, as a user may without
// privileges. A run without an address gets another one, and says why.
func TestReservedNames(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	var files []*os.File
	defer func() {
		for _, f := range files {
			_ = f.Close() // it was only in the way
		}
	}()
	reserved := map[netip.Addr]bool{}
	a := netip.MustParseAddr("127.0.0.0")
	for range 1100 {
		a = a.Next()
		f, err := reserve(a)
		must.Do(t, err)
		files, reserved[a] = append(files, f), true
	}
	got, f, notice, err := freeAddress()
	must.Do(t, err)
	files = append(files, f)
	if !got.IsLoopback() || reserved[got] {
		t.Errorf("the address is %v, which another run has reserved", got)
	}
	if who := fmt.Sprintf("(process %d)", os.Getpid()); !strings.Contains(notice, got.String()) || !strings.Contains(notice, who) ||
		!strings.Contains(notice, "reserved 1000 addresses") {
		t.Errorf("the notice is %q: want the address, how many are reserved, and by %s", notice, who)
	}
}

// TestLookAtTheSameTime has many processes check an address at once, as the ranks of a job do:
// none mistakes the check of another one for a program that holds the port. A program that does
// hold it is still reported, by its name.
func TestLookAtTheSameTime(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	a := netip.MustParseAddr("127.0.0.3")
	var mu sync.Mutex // guards said
	var said []string
	o := &Options{Say: func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, fmt.Sprintf(format, args...))
	}}
	look := func() {
		for _, f := range o.look([]netip.Addr{a}) {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	var ranks sync.WaitGroup
	for range 8 {
		ranks.Go(func() {
			for range 200 {
				look()
			}
		})
	}
	ranks.Wait()
	if len(said) > 0 {
		t.Fatalf("%d warnings of an address that is free; the first: %s", len(said), said[0])
	}
	holder, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, rocePort)))
	must.Do(t, err)
	look()
	if who := fmt.Sprintf("(process %d)", os.Getpid()); len(said) != 1 || !strings.Contains(said[0], who) {
		t.Errorf("with the port held by %s, the warnings are %q", who, said)
	}
	must.Do(t, holder.Close())
}
