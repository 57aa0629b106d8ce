package namespace

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// Alone returns the attributes of a process of the same user in a new network, for Start. The process calls Settle before it does anything else.
func Alone() *syscall.SysProcAttr {
	if os.Geteuid() == 0 {
		return &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	}
	// A user needs a user namespace, in which the process may set up its network.
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_NET_ADMIN},
	}
}

// Start starts a command. It returns ErrForbidden if the system does not allow its namespaces.
func Start(cmd *exec.Cmd) error {
	err := cmd.Start()
	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("namespace: %w: %w", ErrForbidden, err)
	}
	return err
}

// Settle brings up the loopback interface of a process that Alone has started, and gives up the capability for that.
func Settle() error {
	if err := Up("lo"); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		return nil
	}
	return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
}
