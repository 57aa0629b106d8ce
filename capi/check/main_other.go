//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "check: this needs Linux: network namespaces, and Debian's programs over libibverbs")
	os.Exit(2)
}
