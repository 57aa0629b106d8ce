//go:build !portable

package meeting

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/environ"
	"github.com/softhca/softhca/internal/userns"
)

// ErrNotAllowed is returned in a process that must not share memory with others of its user.
var ErrNotAllowed = errors.New("meeting: this process must not share memory")

// Allowed returns an error that wraps ErrNotAllowed if the process has more rights than its user
// (set-user-ID, file capabilities), if it is not dumpable, so that the kernel protects its memory from
// its user, or if the kernel also reports its user ID for other users.
func Allowed() error {
	if environ.Privileged() {
		return fmt.Errorf("%w: it has more rights than its user", ErrNotAllowed)
	}
	if dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || dumpable != 1 {
		return fmt.Errorf("%w: it is not dumpable", ErrNotAllowed)
	}
	if userns.Ambiguous(os.Geteuid()) {
		return fmt.Errorf("%w: user %d is the ID of all users that the user namespace does not map", ErrNotAllowed, os.Geteuid())
	}
	return nil
}
