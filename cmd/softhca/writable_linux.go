package main

import "golang.org/x/sys/unix"

// writableDir returns an error if the process cannot create files in a directory.
func writableDir(dir string) error {
	return unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
}
