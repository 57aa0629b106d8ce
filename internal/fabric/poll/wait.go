//go:build linux

package poll

import (
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Readable reports whether a read of one of some descriptors would return at once: with data, at
// the end of the file, or with an error. The writing end of a pipe is readable once all readers
// have closed the other end. It ignores negative descriptors.
func Readable(fds ...int) bool {
	all := Reading(fds...)
	return Wait(all, &unix.Timespec{}) == nil && slices.ContainsFunc(all, happened)
}

// Yield lets other threads of the host run.
func Yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) } // never fails

// Until waits until one of some descriptors is readable, or for at most left, if that is not negative.
// It reports whether one is readable.
func Until(left time.Duration, fds ...int) bool {
	all := Reading(fds...)
	var limit *unix.Timespec
	if left >= 0 {
		limit = new(unix.NsecToTimespec(int64(left)))
	}
	return Wait(all, limit) != nil || slices.ContainsFunc(all, happened)
}

// happened reports whether an event of a descriptor ended a wait.
func happened(f unix.PollFd) bool { return f.Revents != 0 }

// Usage returns the processor time of the calling thread, and how often it has blocked.
func Usage() (processor time.Duration, blocked int64) {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_THREAD, &u) // does not fail
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), u.Nvcsw
}

// Reading returns what Wait needs to wait until a descriptor is readable.
func Reading(fds ...int) []unix.PollFd {
	all := make([]unix.PollFd, len(fds))
	for i, fd := range fds {
		all[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	}
	return all
}

// Wait waits as ppoll(2) does, without a limit if timeout is nil, and continues after a signal.
// ppoll fails in a process that has lowered its limit of descriptors below len(fds), as some
// sandboxed servers do; then Wait uses select, which has no such check. With select, Wait
// supports only POLLIN and POLLOUT, and reports errors as these.
func Wait(fds []unix.PollFd, timeout *unix.Timespec) error {
	for {
		_, err := unix.Ppoll(fds, timeout, nil) // updates timeout to the remaining time
		if err == unix.EINVAL {
			err = wait(fds, timeout)
		}
		if err != unix.EINTR {
			return err
		}
	}
}

// wordBits is the size of the words in the kernel's sets of descriptors.
const wordBits = int(unsafe.Sizeof(uintptr(0))) * 8

// A set has a bit for each descriptor. FdSet of x/sys/unix has room for 1024.
type set []uintptr

func (s set) add(fd int32) { s[int(fd)/wordBits] |= 1 << (int(fd) % wordBits) }

func (s set) has(fd int32) bool { return s[int(fd)/wordBits]>>(int(fd)%wordBits)&1 != 0 }

// wait is Wait with select.
func wait(fds []unix.PollFd, timeout *unix.Timespec) error {
	top := int32(0)
	for i := range fds {
		top = max(top, fds[i].Fd)
	}
	words := int(top)/wordBits + 1
	both := make(set, 2*words)
	read, write := both[:words], both[words:]
	for _, f := range fds {
		if f.Fd >= 0 && f.Events&unix.POLLIN != 0 {
			read.add(f.Fd)
		}
		if f.Fd >= 0 && f.Events&unix.POLLOUT != 0 {
			write.add(f.Fd)
		}
	}
	_, _, errno := unix.Syscall6(unix.SYS_PSELECT6, uintptr(top)+1, uintptr(unsafe.Pointer(&read[0])), uintptr(unsafe.Pointer(&write[0])), 0, uintptr(unsafe.Pointer(timeout)), 0)
	if errno != 0 {
		return errno
	}
	for i := range fds {
		f := &fds[i]
		f.Revents = 0
		if f.Fd >= 0 && read.has(f.Fd) {
			f.Revents |= unix.POLLIN
		}
		if f.Fd >= 0 && write.has(f.Fd) {
			f.Revents |= unix.POLLOUT
		}
	}
	return nil
}
