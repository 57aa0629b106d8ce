package main

import (
	"errors"
	"os"

	"github.com/softhca/softhca/internal/environ"
)

// Errors of a command that has more rights than the user who starts it.
var (
	errSetID = errors.New("this file is set-user-ID or set-group-ID, so the command could read and write files that its user may not: remove the bits (chmod ug-s), or use sudo; " +
		"for explain --live, setcap cap_net_raw+ep suffices")
	errRunPrivileged = errors.New("this file has capabilities, so it ignores the environment that the program needs: use a copy of softhca without them")
)

// refuseSetID returns an error if the command is set-user-ID or set-group-ID. With file
// capabilities, such as that of explain --live, all commands but run work.
func refuseSetID() error {
	if environ.Privileged() && (os.Getuid() != os.Geteuid() || os.Getgid() != os.Getegid()) {
		return errSetID
	}
	return nil
}
