package launch

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
)

// program describes a program before it runs.
type program struct {
	file      string   // the file that the loader loads, "" if unknown
	loader    string   // of a dynamically linked program
	warnings  []string // why it may not work
	sanitized bool     // it needs the address sanitizer's library
}

// maxScripts limits chains of scripts whose interpreters are scripts, as the kernel does.
const maxScripts = 5

// inspect examines a program. It returns an error if the program cannot work at all.
func inspect(path string) (*program, error) {
	file := path
	for range maxScripts {
		f, err := os.Open(file)
		if err != nil {
			if errors.Is(err, os.ErrPermission) {
				return &program{}, nil // executable but not readable: try to run it
			}
			return nil, err
		}
		next, p, err := look(f)
		if err = errors.Join(err, f.Close()); err != nil || next == "" {
			return p, err
		}
		file = next
	}
	return &program{}, nil
}

// look examines a file: it returns the interpreter of a script, or the description of a
// program.
func look(f *os.File) (interpreter string, p *program, err error) {
	head := make([]byte, 256)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return "", nil, err
	}
	if line, ok := bytes.CutPrefix(head[:n], []byte("#!")); ok {
		return interpreterOf(line), &program{}, nil
	}
	if err := secure(f); err != nil {
		return "", nil, err
	}
	e, err := elf.NewFile(f)
	if err != nil {
		return "", &program{}, nil // the kernel may know the format
	}
	return "", examine(f.Name(), e), nil
}

// interpreterOf returns the interpreter in the first line of a script, or if that is env,
// the program that env runs.
func interpreterOf(line []byte) string {
	line, _, _ = bytes.Cut(line, []byte("\n"))
	words := strings.Fields(string(line))
	if len(words) == 0 {
		return ""
	}
	if filepath.Base(words[0]) == "env" {
		for _, w := range words[1:] {
			if path, err := exec.LookPath(w); err == nil && w[0] != '-' && !strings.Contains(w, "=") {
				return path
			}
		}
	}
	return words[0]
}

// secure returns an error if the kernel gives a program more rights than this process
// has: then the loader ignores libraries in the environment.
func secure(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	why := ""
	switch {
	case info.Mode()&os.ModeSetuid != 0 && int(stat.Uid) != os.Getuid():
		why = fmt.Sprintf("is set to run as user %d", stat.Uid)
	case info.Mode()&os.ModeSetgid != 0 && int(stat.Gid) != os.Getgid():
		why = fmt.Sprintf("is set to run as group %d", stat.Gid)
	case os.Getuid() != 0 && hasCapabilities(f):
		why = "has capabilities of its own"
	default:
		return nil
	}
	name := filepath.Base(f.Name())
	return fmt.Errorf("%s %s, so the system does not load our libraries into it, and it would find no adapter; run a copy without these rights, or run it as that user (`sudo softhca run -- ...` instead of `softhca run -- %s ...`): %w",
		f.Name(), why, name, ib.EPERM)
}

func hasCapabilities(f *os.File) bool {
	n, err := unix.Fgetxattr(int(f.Fd()), "security.capability", nil)
	return err == nil && n > 0
}

// machines are the processor types of the libraries, by the GOARCH of this command.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "riscv64": elf.EM_RISCV, "ppc64le": elf.EM_PPC64, "s390x": elf.EM_S390, "loong64": elf.EM_LOONGARCH}

// examine describes a program, with warnings if it may not find the adapter.
func examine(name string, e *elf.File) *program {
	p := &program{file: name}
	for _, s := range e.Progs {
		if s.Type == elf.PT_INTERP {
			text, err := io.ReadAll(io.LimitReader(s.Open(), unix.PathMax))
			if err == nil {
				p.loader = string(bytes.TrimRight(text, "\x00"))
			}
		}
	}
	// An executable library, such as the loader itself, has a library name.
	soname, _ := e.DynString(elf.DT_SONAME)
	libs, _ := e.ImportedLibraries()
	p.sanitized = slices.ContainsFunc(libs, func(l string) bool { return strings.HasPrefix(l, "libasan.so") })
	switch {
	case e.Machine != machines[runtime.GOARCH] || e.Class != elf.ELFCLASS64:
		p.warnings = append(p.warnings, fmt.Sprintf("%s is for %v (%v) and the libraries are for %s: it cannot find the adapter; programs that it starts may", name, e.Machine, e.Class, runtime.GOARCH))
	case p.loader == "" && len(soname) == 0:
		p.warnings = append(p.warnings, name+" is linked statically: it cannot find the adapter, because no library can be loaded into it; programs that it starts can")
	case strings.Contains(filepath.Base(p.loader), "musl"):
		p.warnings = append(p.warnings, name+" is for the C library musl and the libraries are for glibc: it cannot find the adapter; programs that it starts may")
	}
	return p
}
