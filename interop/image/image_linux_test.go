package image

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/must"
)

// The archive is one that cpio reads.
func TestArchive(t *testing.T) {
	if _, err := exec.LookPath("cpio"); err != nil {
		// Few machines lack it, and nothing else reads the format.
		t.Skip("no cpio here")
	}
	tr := newTree()
	tr.add("usr/bin/tool", 0o755, []byte("hello"))
	tr.add("bin/sh", fs.ModeSymlink|0o777, []byte("dash"))
	tr.add("empty", 0o644, nil)
	path := filepath.Join(t.TempDir(), "initrd")
	must.Do(t, tr.write(path))
	data, err := os.ReadFile(path)
	must.Do(t, err)
	cmd := exec.Command("cpio", "-tv", "--quiet")
	cmd.Stdin = bytes.NewReader(data)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("cpio: %v\n%s", err, out)
	}
	for _, want := range []string{"drwxr-xr-x", "-rwxr-xr-x", " 5 ", "usr/bin/tool", "bin/sh -> dash", "crw-------", "dev/console"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the archive has no %q:\n%s", want, out)
		}
	}
	if len(data)%4 != 0 || !bytes.Contains(data, []byte("TRAILER!!!")) {
		t.Error("the archive has no proper end")
	}
}

func TestUnsigned(t *testing.T) {
	body, sig := []byte("the module"), []byte("its signature")
	info := make([]byte, signatureInfo)
	binary.BigEndian.PutUint32(info[8:], uint32(len(sig)))
	signed := slices.Concat(body, sig, info, []byte(signatureMark))
	if got := unsigned(signed); !bytes.Equal(got, body) {
		t.Errorf("%q", got)
	}
	binary.BigEndian.PutUint32(signed[len(body)+len(sig)+8:], 1<<30)
	for _, b := range [][]byte{body, signed, []byte(signatureMark), nil} {
		if got := unsigned(b); !bytes.Equal(got, b) {
			t.Errorf("%q without a signature becomes %q", b, got)
		}
	}
}

func TestWhatAptPrints(t *testing.T) {
	const depends = "linux-image-amd64\n  Depends: linux-image-6.1.0-56-amd64\n"
	if m := kernelName.FindStringSubmatch(depends); m == nil || m[1] != "linux-image-6.1.0-56-amd64" {
		t.Errorf("%q", m)
	}
	for name, want := range map[string]bool{"perl-base_5.36.deb": true, "libc6_2.36.deb": false, "libibverbs1_44.0-2_amd64.deb": false, "udev_252.deb": true} {
		if unused.MatchString(name) != want {
			t.Errorf("%s is left out: %v", name, !want)
		}
	}
}

// An image from the cache is one that is complete and made of the same.
func TestCached(t *testing.T) {
	dir := t.TempDir()
	img := &Image{Kernel: filepath.Join(dir, "vmlinux"), Initrd: filepath.Join(dir, "initrd"), Release: "6.1.0"}
	text, err := json.Marshal(manifest{"stamp", img})
	must.Do(t, err)
	for i, file := range []struct {
		name string
		data []byte
	}{{"image.json", text}, {"vmlinux", nil}, {"initrd", nil}} {
		if cached(dir, "stamp") != nil {
			t.Errorf("an image of %d files of 3 is taken", i)
		}
		must.Do(t, os.WriteFile(filepath.Join(dir, file.name), file.data, 0o600))
	}
	if got := cached(dir, "stamp"); got == nil || got.Release != "6.1.0" {
		t.Errorf("a complete image is not taken: %+v", got)
	}
	if cached(dir, "other") != nil {
		t.Error("an image of other inputs is taken")
	}
}

// An image in use stays; an unused one is removed.
func TestTidy(t *testing.T) {
	b := Builder{Dir: t.TempDir(), Say: t.Logf}
	var dirs []string
	for _, name := range []string{"image-6.1-mine", "image-6.1-used", "image-6.1-old", "image-6.12-old"} {
		dirs = append(dirs, filepath.Join(b.Dir, name))
		must.Do(t, os.Mkdir(dirs[len(dirs)-1], 0o700))
	}
	f, err := use(dirs[1], unix.LOCK_SH)
	must.Do(t, err)
	defer func() { _ = f.Close() }()
	must.Do(t, b.tidy(dirs[0], "6.1"))
	for i, want := range []bool{true, true, false, true} {
		if _, err := os.Stat(dirs[i]); (err == nil) != want {
			t.Errorf("%s is there: %v", dirs[i], err == nil)
		}
	}
}

func TestUnknownKernel(t *testing.T) {
	b := Builder{Dir: t.TempDir(), Say: t.Logf}
	if _, err := b.Build(t.Context(), "2.4"); err == nil || !strings.Contains(err.Error(), "6.12") {
		t.Errorf("the error does not say what there is: %v", err)
	}
}

// The files of a program are those that it needs to run.
func TestProgramBringsItsLibraries(t *testing.T) {
	tr := newTree()
	if err := tr.program("/", "bin/no-such-program"); err == nil {
		t.Error("a program that is not there is taken")
	}
	if err := tr.library("/nonexistent", "libc.so.6"); err == nil || !strings.Contains(err.Error(), "libc.so.6") {
		t.Errorf("a library that no package has: %v", err)
	}
	if err := tr.library("/nonexistent", "ld-linux-x86-64.so.2"); err != nil {
		t.Errorf("the dynamic linker has a place of its own: %v", err)
	}
}

// programsAre puts scripts in the place of programs.
func programsAre(t *testing.T, scripts map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range scripts {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o755))
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// A suite that is gone is named, and what does without it.
func TestNoBackports(t *testing.T) {
	for _, c := range []struct{ script, suite, want string }{
		{"echo 'The value is invalid for APT::Default-Release' >&2; exit 100", "bookworm-backports", "invalid for APT::Default-Release"},
		{"echo 'The value is invalid for APT::Default-Release' >&2; exit 100", "bookworm-backports", "-kernel 6.1 does not need it"},
		{"exit 0", "bookworm-backports", "have no linux-image-amd64"},
		{"exit 0", "", "have no linux-image-amd64"},
	} {
		programsAre(t, map[string]string{"apt-cache": c.script})
		if _, err := kernelPackage(t.Context(), bookworm(t.TempDir(), t.Logf), c.suite); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("suite %q, %s: %v", c.suite, c.script, err)
		}
	}
}
