package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// marker is the environment variable that marks the child.
const marker = "SOFTHCA_TEST_SANDBOX"

// Enter runs the calling test once more, in a child process with its own
// network, with loopback up. In the child it returns true, and the test
// continues. In the parent it reports the child's result and returns false, and
// the test must return. It skips the test if the system does not allow
// namespaces.
func Enter(t *testing.T) bool {
	t.Helper()
	if os.Getenv(marker) != "" {
		if err := up("lo"); err != nil {
			t.Fatal(err)
		}
		return true
	}
	args := []string{"-test.run=^" + regexp.QuoteMeta(t.Name()) + "$", "-test.count=1"}
	if testing.Verbose() {
		args = append(args, "-test.v")
	}
	cmd := exec.Command("/proc/self/exe", args...)
	// The race detector reports races at once, so do not wait at exit.
	cmd.Env = append(os.Environ(), marker+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Start()
	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
		// Containers and hardened kernels forbid user namespaces: without one
		// the test lacks privileges.
		t.Skipf("no network namespace to test in: %v", err)
	}
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		t.Fatalf("in the namespace: %v\n%s", err, out.Bytes())
	}
	if testing.Verbose() {
		t.Logf("in the namespace:\n%s", out.Bytes())
	}
	return false
}

// up brings an interface up.
func up(ifname string) error {
	return control(ifname, func(fd int, req *unix.Ifreq) error {
		if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, req); err != nil {
			return err
		}
		req.SetUint16(req.Uint16() | unix.IFF_UP)
		return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
	})
}

// control calls f with a socket and a request for an interface.
func control(ifname string, f func(fd int, req *unix.Ifreq) error) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("sandbox: socket: %w", err)
	}
	req, err := unix.NewIfreq(ifname)
	if err == nil {
		err = f(fd, req)
	}
	if err = errors.Join(err, unix.Close(fd)); err != nil {
		return fmt.Errorf("sandbox: set up %s: %w", ifname, err)
	}
	return nil
}
