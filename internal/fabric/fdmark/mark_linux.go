//go:build linux

package fdmark

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// Signal is the mark: the highest signal number. The compiler compares it with that of
// capi/engine/engine.h.
const Signal = 64

// Mark marks a descriptor. On kernels that refuse it, the descriptor stays unmarked.
func Mark(fd int) {
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETSIG, Signal) // unmarked descriptors work too
}

// Marked reports whether a descriptor is open and marked.
func Marked(fd int) bool {
	has, err := unix.FcntlInt(uintptr(fd), unix.F_GETSIG, 0)
	return err == nil && has == Signal
}

// Conn marks the descriptor of a connection, a listener or a file.
func Conn(c syscall.Conn) {
	raw, err := c.SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) { Mark(int(fd)) }) // a closed descriptor needs no mark
	}
}

// Bounds of the limit of descriptors, of which the adapter uses the last quarter: programs use
// low numbers, and some expect the number that they freed last.
const (
	most   = 1024 // a higher limit counts as this one
	fewest = 256  // with a lower limit of descriptors, the process needs all its numbers itself
)

// Standard is the number of standard descriptors. If the program has closed one of them, the
// adapter must not get its number: what libraries print would go to a socket.
const Standard = 3

// lowest returns the lowest number that Copy chooses.
func lowest() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < fewest {
		return Standard
	}
	return int(min(limit.Cur, most)) / 4 * 3
}

// Copy returns a copy of a descriptor with a high number. If no high number is free, and in
// programs that may have only few descriptors, it is the lowest number that is free and is no
// standard descriptor's.
func Copy(fd int) (int, error) {
	high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, lowest())
	if errors.Is(err, unix.EMFILE) {
		return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, Standard)
	}
	return high, err
}

// Take marks a new descriptor and moves it to where Copy would put it. It returns the new
// number; the old one is free then. If there is no such number, the descriptor stays where
// it is.
func Take(fd int) int {
	Mark(fd)
	if fd >= lowest() {
		return fd
	}
	high, err := Copy(fd)
	if err != nil {
		return fd
	}
	_ = unix.Close(fd) // the copy is open
	return high
}
