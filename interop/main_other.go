//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "interop: this needs Linux: network namespaces, a tap interface, and Debian's packages for the guests")
	os.Exit(2)
}
