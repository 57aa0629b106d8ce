//go:build !linux

package main

import "os"

// writableDir returns an error if a directory does not exist. It does not check whether the
// process can create files there.
func writableDir(dir string) error {
	_, err := os.Stat(dir)
	return err
}
