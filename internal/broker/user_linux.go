//go:build !portable

package broker

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/userns"
)

// credentials returns the process at the other end of a Unix socket.
func credentials(fd int) (*unix.Ucred, error) {
	who, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return nil, fmt.Errorf("broker: find the user of the other process: %w", err)
	}
	return who, nil
}

// ofThisUser returns an error with EPERM unless a peer's user ID, as the kernel reports it, is
// that of this process and of no other user.
func ofThisUser(uid uint32) error {
	if int(uid) != os.Geteuid() {
		return fmt.Errorf("broker: the other process runs as user %d, this one as user %d: only processes of one user share an address: %w", uid, os.Geteuid(), unix.EPERM)
	}
	return distinct()
}

// distinct returns an error with EPERM if other users may have the user ID of this process: in
// a user namespace the kernel reports the overflow ID for every user whom the namespace does
// not map.
func distinct() error {
	if !userns.Ambiguous(os.Geteuid()) {
		return nil
	}
	return fmt.Errorf("broker: this process runs as user %d, the ID of all users that the user namespace does not map, so it cannot share an address: %w",
		os.Geteuid(), unix.EPERM)
}
