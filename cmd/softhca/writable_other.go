//go:build !linux

package main

import "os"

// writableDir returns an error if a directory does not exist. Whether the process can
// create files in it shows when it does.
func writableDir(dir string) error {
	_, err := os.Stat(dir)
	return err
}
