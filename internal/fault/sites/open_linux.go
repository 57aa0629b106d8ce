package sites

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fault"
)

const (
	maxSiblings = 4096 // processes of one program in a run
	maxProgram  = 64   // characters of the name of a program
)

// Open returns the log of this process in the directory of a run. The logs of one program in a process have the same file.
func Open(dir string) (*Log, error) {
	program, started, err := self()
	if err != nil {
		return nil, err
	}
	for n := 1; n <= maxSiblings; n++ {
		l := &Log{name: program + "." + strconv.Itoa(n)}
		l.number()
		path := filepath.Join(dir, l.name+suffix)
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
		created := err == nil
		if errors.Is(err, unix.EEXIST) {
			fd, err = unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		}
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
		mine, err := l.use(fd, created, started)
		if err = errors.Join(err, unix.Close(fd)); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if mine {
			return l, nil
		}
	}
	return nil, fmt.Errorf("%s: more than %d processes of %s: %w", dir, maxSiblings, program, unix.EMFILE)
}

// use maps a file, and reports whether it belongs to this process, which started at an instant.
func (l *Log) use(fd int, created bool, started uint64) (mine bool, err error) {
	if created {
		err = unix.Ftruncate(fd, size)
	} else {
		var st unix.Stat_t
		if err = unix.Fstat(fd, &st); err == nil && st.Size < size {
			return false, nil // its process is creating it
		}
	}
	if err != nil {
		return false, err
	}
	mem, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return false, err
	}
	l.mem = mem
	pid := uint64(os.Getpid())
	if created {
		l.word(wordProcess).Store(pid)
		l.word(wordStarted).Store(started)
		l.word(wordMagic).Store(magic)
	}
	if l.word(wordProcess).Load() == pid && l.word(wordStarted).Load() == started {
		return true, nil
	}
	return false, unix.Munmap(mem)
}

// self returns the name of the program that this process executes, and when the process started.
func self() (program string, started uint64, err error) {
	line, err := os.ReadFile("/proc/self/cmdline")
	if err != nil {
		return "", 0, err
	}
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return "", 0, err
	}
	first, _, _ := bytes.Cut(line, []byte{0})
	// The name of the command, in parentheses, may contain anything. The start is field 22, the 20th after it.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return "", 0, fmt.Errorf("/proc/self/stat has %d fields after the name: %w", len(fields), unix.EINVAL)
	}
	started, err = strconv.ParseUint(fields[19], 10, 64)
	return programName(string(first)), started, err
}

// programName returns the name of a program by its path, with other characters than those of names replaced.
func programName(path string) string {
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune(fault.NameLetters, r) {
			return r
		}
		return '_'
	}, filepath.Base(path))
	return name[:min(len(name), maxProgram)]
}
