//go:build !portable

package broker

import (
	"os"

	"github.com/softhca/softhca/internal/fabric/fdmark"
	"golang.org/x/sys/unix"
)

// watch ends a member's connection when its process has ended, and returns a function that
// stops watching. The kernel ends the connection too, but only after children that
// inherited it have ended.
func watch(r *memberConn) (stop func()) {
	fd, err := unix.PidfdOpen(r.PID, unix.PIDFD_NONBLOCK)
	if err != nil { // an old kernel, or a process of another PID namespace
		return func() {}
	}
	f := os.NewFile(uintptr(fdmark.Take(fd)), "process")
	raw, err := f.SyscallConn()
	if err != nil {
		_ = f.Close()
		return func() {}
	}
	go func() {
		// The descriptor of a process can be read once the process has ended.
		if raw.Read(canRead) == nil { // otherwise stop was called
			r.ended.Store(true)
			_ = r.wire.CloseRead() // messages that the process sent before can still be read
		}
	}()
	return func() { _ = f.Close() }
}
