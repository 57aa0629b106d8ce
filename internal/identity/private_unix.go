//go:build unix

package identity

import (
	"io/fs"
	"os"
	"syscall"
)

// noWait keeps the opening of a named pipe from blocking.
const noWait = syscall.O_NONBLOCK

// private returns an error unless this user owns a regular file that no other may use.
func private(info fs.FileInfo) error {
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return errShared
	}
	return owned(info)
}

// owned returns an error unless this user owns a file.
func owned(info fs.FileInfo) error {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		return errShared
	}
	return nil
}

// trusted returns an error if a user other than root and this one owns a directory.
func trusted(info fs.FileInfo) error {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid == 0 {
		return nil
	}
	return owned(info)
}
