//go:build linux && cgo

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"

	"github.com/softhca/softhca/internal/fabric/fdmark"
)

// markRuntime marks the descriptors of Go's runtime itself: those of its poller. It is the
// epoll that watches a pipe made here, and the runtime wakes it by the eventfd in it. They
// stay unmarked, and the adapter works as well, if there is no /proc or no room for a pipe.
func markRuntime() {
	r, w, err := os.Pipe()
	if err != nil {
		return
	}
	defer func() { _, _ = r.Close(), w.Close() }() // nothing was written
	own := -1
	raw, err := r.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { own = int(fd) })
	}
	all, other := os.ReadDir("/proc/self/fd")
	if err != nil || other != nil {
		return
	}
	for _, e := range all {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || !isAnonymous(fd, "eventpoll") {
			continue
		}
		if watched := watchedBy(fd); watched[own] {
			fdmark.Mark(fd)
			for fd := range watched {
				if isAnonymous(fd, "eventfd") {
					fdmark.Mark(fd)
				}
			}
		}
	}
}

// isAnonymous reports whether a descriptor is of a kind of files without a name.
func isAnonymous(fd int, kind string) bool {
	link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	return err == nil && link == "anon_inode:["+kind+"]"
}

// watchedBy returns the descriptors that an epoll watches.
func watchedBy(epoll int) map[int]bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", epoll))
	if err != nil {
		return nil // it has just been closed
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
