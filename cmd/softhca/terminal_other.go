//go:build !unix

package main

import "os"

// terminalColumns returns 0: this system does not report the width of a terminal.
func terminalColumns(*os.File) int { return 0 }

// isTerminal reports false: this system has no way to ask.
func isTerminal(*os.File) bool { return false }
