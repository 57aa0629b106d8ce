//go:build linux

package image

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// binaries are the files that the guest has, as patterns below the unpacked
// packages. Their libraries are added.
var binaries = []string{
	"usr/bin/ibv_*", "usr/bin/rping", "usr/bin/ucmatose", "usr/bin/udaddy", "usr/bin/mckey", "usr/bin/rdma_client", "usr/bin/rdma_server",
	"usr/bin/cmtime", "usr/bin/ib_*_bw", "bin/dash", "bin/ip", "bin/ss", "bin/rdma", "usr/bin/rdma", "sbin/tc", "usr/bin/tcpdump", "usr/bin/strace",
	"usr/lib/x86_64-linux-gnu/libibverbs/librxe*.so",
}

// dlopened are libraries that no program names: pthread_exit and the resolver
// load them when they run.
var dlopened = []string{"libgcc_s.so.1", "libnss_files.so.2"}

const interpreter = "lib64/ld-linux-x86-64.so.2"

// libraryDirs are where the guest's dynamic linker looks.
var libraryDirs = []string{"lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"}

// tree is the guest's file system in memory, by path.
type tree struct {
	files map[string]file
}

type file struct {
	mode fs.FileMode // regular file, directory or symbolic link
	data []byte      // a link's target
}

func newTree() *tree { return &tree{files: map[string]file{}} }

// add puts a file into the tree, and the directories above it.
func (t *tree) add(path string, mode fs.FileMode, data []byte) {
	for dir := filepath.Dir(path); dir != "."; dir = filepath.Dir(dir) {
		if _, ok := t.files[dir]; !ok {
			t.files[dir] = file{mode: fs.ModeDir | 0o755}
		}
	}
	t.files[path] = file{mode, data}
}

// fill puts programs of the unpacked packages in root into the tree, with their
// libraries, and the other files that a system needs.
func (t *tree) fill(root string, agent []byte) error {
	for _, pattern := range binaries {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return err
		}
		for _, name := range found {
			rel, err := filepath.Rel(root, name)
			if err != nil {
				return err
			}
			if err := t.program(root, rel); err != nil {
				return err
			}
		}
	}
	for _, name := range append(slices.Clone(dlopened), "libibverbs.so.1", "librdmacm.so.1") {
		if err := t.library(root, name); err != nil {
			return err
		}
	}
	for from, to := range map[string]string{"bin/busybox": "bin/busybox", interpreter: interpreter, "etc/libibverbs.d/rxe.driver": "etc/libibverbs.d/rxe.driver"} {
		data, err := os.ReadFile(filepath.Join(root, from))
		if errors.Is(err, fs.ErrNotExist) && from == interpreter {
			data, err = os.ReadFile(filepath.Join(root, libraryDirs[0], filepath.Base(from)))
		}
		if err != nil {
			return err
		}
		t.add(to, 0o755, data)
	}
	for _, name := range applets {
		if _, ok := t.files["bin/"+name]; !ok {
			t.add("bin/"+name, fs.ModeSymlink|0o777, []byte("busybox"))
		}
	}
	t.add("bin/sh", fs.ModeSymlink|0o777, []byte("dash"))
	t.add("init", 0o755, agent)
	for path, text := range map[string]string{
		"etc/passwd":        "root:x:0:0:root:/root:/bin/sh\n",
		"etc/group":         "root:x:0:\n",
		"etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n",
		"etc/protocols":     "tcp 6 TCP\nudp 17 UDP\n",
		"etc/services":      "",
	} {
		t.add(path, 0o644, []byte(text))
	}
	for _, dir := range []string{"proc", "sys", "dev", "tmp", "run", "root", "var", "mnt"} {
		t.add(dir, fs.ModeDir|0o755, nil)
	}
	return nil
}

// applets are the programs that busybox gives the guest's shell.
var applets = []string{
	"awk", "cat", "chmod", "cp", "cut", "date", "df", "dmesg", "echo", "env", "find", "free", "grep", "head", "hexdump", "kill", "killall",
	"ls", "mkdir", "mount", "mv", "nproc", "od", "pidof", "ping", "ps", "reset", "rm", "rmdir", "sed", "seq", "setsid", "sleep", "sort",
	"stty", "tail", "tee", "timeout", "top", "touch", "tr", "true", "uname", "uniq", "uptime", "vi", "wc", "xargs",
}

// program puts an ELF file into the tree, and the libraries that it needs.
func (t *tree) program(root, path string) error {
	if _, ok := t.files[path]; ok {
		return nil
	}
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return err
	}
	t.add(path, 0o755, data)
	e, err := elf.Open(filepath.Join(root, path))
	if err != nil {
		return nil // a script: it needs no library
	}
	needs, err := e.ImportedLibraries()
	if err := errors.Join(err, e.Close()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, name := range needs {
		if err := t.library(root, name); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// library puts a shared library into the tree under the name by which programs
// ask for it.
func (t *tree) library(root, name string) error {
	if strings.HasPrefix(name, "ld-linux") {
		return nil
	}
	for _, dir := range libraryDirs {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(filepath.Join(root, path)); err == nil {
			return t.program(root, path)
		}
	}
	return fmt.Errorf("no package has the library %s", name)
}
