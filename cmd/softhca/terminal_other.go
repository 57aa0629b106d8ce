//go:build !unix

package main

import "os"

// terminalColumns returns 0: this system does not report the width of a terminal.
func terminalColumns(*os.File) int { return 0 }

// isTerminal reports whether f is a device of characters, as terminals are.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
