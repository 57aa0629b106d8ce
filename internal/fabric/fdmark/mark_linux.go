//go:build linux

package fdmark

import (
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

// Bounds of the numbers that Take chooses: programs use low numbers, and some expect the
// number that they freed last.
const (
	most   = 1024 // Take chooses no higher number
	fewest = 256  // with a lower limit of descriptors, the process needs all its numbers itself
)

// Take marks a new descriptor and moves it to a high number, which it returns. The old
// number is free then. If there is no high number, the descriptor stays where it is.
func Take(fd int) int {
	Mark(fd)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < fewest {
		return fd
	}
	from := int(min(limit.Cur, most)) / 4 * 3
	if fd >= from {
		return fd
	}
	high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, from)
	if err != nil {
		return fd
	}
	_ = unix.Close(fd) // the copy is open
	return high
}
