//go:build linux && cgo

package main

// #include "engine.h"
import "C"

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/environ"
	"github.com/softhca/softhca/internal/fabric/fdmark"
)

// One of these does not compile if the marks of C and Go differ.
const (
	_ = uint(C.SOFTHCA_MARK - fdmark.Signal)
	_ = uint(fdmark.Signal - C.SOFTHCA_MARK)
)

// room is the number of descriptors that markRuntime and the runtime's poller need: a pipe, a
// directory, an epoll descriptor and an eventfd.
const room = 5

// findRoom fails if the process cannot open room descriptors. Without one for its poller, Go's
// runtime ends the process.
func findRoom() error {
	for range room {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			return fmt.Errorf("descriptors for Go's runtime: %w", err)
		}
		defer func() { _ = unix.Close(fd) }() // nothing was written
	}
	return nil
}

// markRuntime marks the descriptors of Go's runtime itself: those of its poller, and the files
// of the processor limit, which the runtime reads again from time to time. The poller is the
// epoll descriptor that watches a pipe made here, and the runtime wakes it through an eventfd
// that it watches too. Without /proc, or without descriptors for a pipe, all stay unmarked, and
// the adapter still works. markRuntime returns the epoll descriptor, -1 if it does not find it.
func markRuntime() int {
	r, w, err := os.Pipe()
	if err != nil {
		return -1
	}
	defer func() { _, _ = r.Close(), w.Close() }() // nothing was written
	own, poller := -1, -1
	raw, err := r.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { own = int(fd) })
	}
	all, other := os.ReadDir("/proc/self/fd")
	if err != nil || other != nil {
		return -1
	}
	limits := make(map[string][]int)
	for _, e := range all {
		fd, err := strconv.Atoi(e.Name())
		if err == nil {
			if name := limitOf(fd); name != "" {
				limits[name] = append(limits[name], fd)
			}
		}
		if err != nil || !isAnonymous(fd, "eventpoll") {
			continue
		}
		if watched := watchedBy(fd); watched[own] {
			fdmark.Mark(fd)
			poller = fd
			for fd := range watched {
				if isAnonymous(fd, "eventfd") {
					fdmark.Mark(fd)
				}
			}
		}
	}
	for _, fds := range limits {
		if len(fds) == 1 { // with two such files, one may be the program's
			fdmark.Mark(fds[0])
		}
	}
	return poller
}

// The runtime gets processorsPerCore processors for each core, within these bounds. A thread of
// the program keeps one after it has left the engine, and while it sleeps there. A thread that finds
// none waits until the runtime's monitor thread takes one away from another, which it does only after
// 20 µs or more, and both then interrupt the program.
const (
	processorsPerCore = 4
	leastProcessors   = 8
	mostProcessors    = 32 // unless there are more cores: the garbage collector uses a quarter of them
)

// processors returns the number of processors that the runtime gets instead of n, on a machine of as
// many cores. The user's choice in GOMAXPROCS, if not empty, stays, as does a single processor.
func processors(n int, chosen string) int {
	if chosen != "" || n == 1 {
		return n
	}
	return max(n, min(max(processorsPerCore*n, leastProcessors), mostProcessors))
}

// addProcessors gives the runtime the number of processors that processors returns.
func addProcessors() {
	now := runtime.GOMAXPROCS(0)
	if want := processors(now, environ.Getenv("GOMAXPROCS")); want != now {
		runtime.GOMAXPROCS(want)
	}
}

// limitOf returns the name of the processor-limit file behind a descriptor that the runtime may
// have opened, "" for any other descriptor.
func limitOf(fd int) string {
	link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return ""
	}
	switch name := filepath.Base(link); name {
	case "cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us":
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC != 0 {
			return name
		}
	}
	return ""
}

// isAnonymous reports whether a descriptor is of an anonymous file of a kind.
func isAnonymous(fd int, kind string) bool {
	link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	return err == nil && link == "anon_inode:["+kind+"]"
}

// watchedBy returns the descriptors that an epoll descriptor watches.
func watchedBy(epoll int) map[int]bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", epoll))
	if err != nil {
		return nil // the descriptor has just been closed
	}
	watched := make(map[int]bool)
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var fd int
		if n, err := fmt.Sscanf(lines.Text(), "tfd: %d", &fd); n == 1 && err == nil {
			watched[fd] = true
		}
	}
	return watched
}
