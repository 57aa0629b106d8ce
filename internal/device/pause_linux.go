package device

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// pause stops this process until another one continues it. The calling thread stops at once, so it cannot send a packet first.
func pause() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.SIGSTOP)
}
