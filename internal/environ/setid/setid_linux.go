package setid

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Stranger is a user, and a group, without privileges and other than root.
const Stranger = 23456

// Kind is how a program gets more rights than the user who starts it.
type Kind string

// The kinds.
const (
	User         Kind = "set-user-ID"
	Group        Kind = "set-group-ID"
	Capabilities Kind = "file capabilities"
)

// Kinds returns all of them.
func Kinds() []Kind { return []Kind{User, Group, Capabilities} }

// Dir returns a new directory that every user can enter, and that the test removes. Dir
// skips the test where it cannot make privileged programs.
func Dir(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		// Only root can give programs rights.
		t.Skip("not root: no privileged programs can be made")
	}
	if n, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || n != 0 {
		// A container may forbid them.
		t.Skip("no_new_privs is set: privileged programs get no rights")
	}
	dir, err := os.MkdirTemp("/tmp", "softhca-setid-") // whose parents everybody can enter
	if err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) }) // what is left is in /tmp
		err = os.Chmod(dir, 0o755)
	}
	var fs unix.Statfs_t
	if err = errors.Join(err, unix.Statfs(dir, &fs)); err != nil {
		t.Fatal(err)
	}
	if fs.Flags&unix.ST_NOSUID != 0 {
		// Privileged programs need another file system.
		t.Skip("/tmp is mounted with nosuid: privileged programs get no rights")
	}
	return dir
}

// capDACOverride is the capability to open all files.
const capDACOverride = 1

// Grant makes a file of root's a privileged program: of user 0, of group 0, or with the
// capability to open all files.
func Grant(t *testing.T, k Kind, file string) {
	t.Helper()
	mode, err := os.FileMode(0o755), error(nil)
	switch k {
	case User:
		mode |= os.ModeSetuid
	case Group:
		mode |= os.ModeSetgid
	case Capabilities:
		// struct vfs_cap_data: the revision with the effective bit, then permitted and
		// inheritable capabilities, the lower 32 and the upper ones.
		const effective, revision2 = 1, 0x02000000
		var data []byte
		for _, word := range []uint32{revision2 | effective, 1 << capDACOverride, 0, 0, 0} {
			data = binary.LittleEndian.AppendUint32(data, word)
		}
		err = unix.Setxattr(file, "security.capability", data, 0)
	}
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EPERM) {
		// Some file systems and user namespaces have no file capabilities.
		t.Skipf("no %s here: %v", k, err)
	}
	if err = errors.Join(err, os.Chmod(file, mode)); err != nil {
		t.Fatal(err)
	}
}

// AsStranger makes a command run as the stranger, in the root directory.
func AsStranger(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: Stranger, Gid: Stranger}}
	cmd.Dir = "/"
	return cmd
}
