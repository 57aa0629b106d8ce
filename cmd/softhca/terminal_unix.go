//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminalColumns returns the width of a terminal, or 0 if f is no terminal.
func terminalColumns(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// isTerminal reports whether f is a terminal. Its width is 0 if nothing has set it, as in some
// containers and CI systems.
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}
