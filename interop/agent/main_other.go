//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "agent: this is the first process of a Linux guest; it does nothing elsewhere")
	os.Exit(2)
}
