package text

import (
	"errors"
	"net"
	"os"
)

// Bare returns the cause of an error of package net, without the call and the
// addresses in front of its text, which the caller describes better. It returns other
// errors unchanged.
func Bare(err error) error {
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		err = op.Err
	}
	if call := (*os.SyscallError)(nil); errors.As(err, &call) {
		err = call.Err
	}
	return err
}
