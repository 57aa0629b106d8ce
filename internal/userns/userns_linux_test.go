package userns

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// namespaceVar in its environment marks a process that a test starts in a user namespace.
const namespaceVar = "SOFTHCA_TEST_USERNS"

// TestAmbiguous asks for the overflow ID in a user namespace that maps one user, and for it and
// others in that of the test: other IDs are never ambiguous.
func TestAmbiguous(t *testing.T) {
	overflow := overflowUID()
	for _, uid := range []int{0, 1, overflow - 1, overflow + 1} {
		if Ambiguous(uid) {
			t.Errorf("user %d is ambiguous", uid)
		}
	}
	if os.Getenv(namespaceVar) != "" {
		if !Ambiguous(overflow) {
			t.Errorf("user %d is not ambiguous in a namespace that maps one user", overflow)
		}
		return
	}
	if is := Ambiguous(overflow); is == mapsAll() {
		t.Errorf("user %d is ambiguous: %v, in a namespace that maps all users: %v", overflow, is, mapsAll())
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestAmbiguous$")
	cmd.Env = append(os.Environ(), namespaceVar+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
		// Containers and hardened kernels forbid user namespaces.
		t.Skipf("no user namespace: %v", err)
	}
	if err != nil {
		t.Errorf("in a user namespace: %v, %s", err, out)
	}
}
