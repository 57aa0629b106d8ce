//go:build !unix

package main

import "os"

// terminalColumns returns the width of a terminal, 0 where nobody tells.
func terminalColumns(*os.File) int { return 0 }

// isTerminal reports false: this system has no way to ask.
func isTerminal(*os.File) bool { return false }
