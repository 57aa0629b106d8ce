package namespace

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// ErrForbidden means that the system does not allow the namespaces, as containers and hardened
// kernels may.
var ErrForbidden = errors.New("user namespaces are not allowed here: run as root, or allow them by `sysctl -w user.max_user_namespaces=10000` and, " +
	"where they exist, kernel.unprivileged_userns_clone=1 and kernel.apparmor_restrict_unprivileged_userns=0")

// Attr returns the attributes of a process in a new user namespace, in which it is root without
// privilege outside, and in the other new namespaces of the flags. The kernel kills it when the
// thread that starts it ends.
func Attr(others uintptr) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | others,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
}

// Again returns the command that runs this program with other arguments in namespaces of its own,
// for Run. When ctx ends, the process gets SIGTERM.
func Again(ctx context.Context, others uintptr, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.Args[0] = os.Args[0]
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.SysProcAttr = Attr(others)
	return cmd
}

// Run runs a command until it ends. It returns ErrForbidden if the system does not allow its
// namespaces.
func Run(cmd *exec.Cmd) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the kernel treats the end of this thread as the parent's end
		defer runtime.UnlockOSThread()
		err := Start(cmd)
		if err == nil {
			err = cmd.Wait()
		}
		done <- err
	}()
	return <-done
}
