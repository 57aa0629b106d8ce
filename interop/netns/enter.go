//go:build linux

package netns

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/softhca/softhca/internal/namespace"
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
	const others = syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS
	cmd := namespace.Again(ctx, others, args...)
	if os.Getuid() == 0 { // root needs no user namespace for the others
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: others, Pdeathsig: syscall.SIGKILL}
	}
	cmd.Env = append(os.Environ(), marker+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = files
	return namespace.Run(cmd)
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
