//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "symbols: needs Linux with Debian's apt and dpkg")
	os.Exit(2)
}
