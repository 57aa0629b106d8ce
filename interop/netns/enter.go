//go:build linux

package netns

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// marker is the environment variable that marks the child.
const marker = "SOFTHCA_INTEROP_INSIDE"

// Inside reports whether this process was started by Run.
func Inside() bool { return os.Getenv(marker) != "" && os.Getpid() == 1 }

// Run runs this program again, in namespaces of its own, until it ends, with
// the arguments and the extra files, which are its descriptors from 3. When
// ctx ends the child is sent SIGTERM. The child is killed when the calling
// process ends in any way.
func Run(ctx context.Context, args []string, files []*os.File) error {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), marker+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = files
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
	}
	if os.Getuid() != 0 {
		// In a user namespace every user may create the others.
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	done := make(chan error)
	go func() { done <- startAndWait(ctx, cmd) }()
	return <-done
}

// startAndWait keeps the thread that starts the child until the child has
// ended: the kernel treats the end of that thread as the parent's end.
func startAndWait(ctx context.Context, cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("netns: no namespaces of our own: %w (run as root, or allow unprivileged user namespaces)", err)
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-ctx.Done():
			_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		case <-ended:
		}
	}()
	return cmd.Wait()
}

// Check returns an error that says what is missing for a network.
func Check() error {
	f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return errors.New("netns: there is no /dev/net/tun: load the module tun, or give the container the device")
	case err != nil:
		return fmt.Errorf("netns: %w: run as root, or make the device writable for you", err)
	}
	return f.Close()
}
