package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// byteSize is the value of a flag that counts bytes: a number, optionally with
// K, M or G for powers of 1024.
type byteSize struct{ n *int }

var _ pflag.Value = byteSize{}

// String returns the number of bytes.
func (b byteSize) String() string {
	if b.n == nil {
		return "0"
	}
	return strconv.Itoa(*b.n)
}

// Type names the value in usage texts.
func (b byteSize) Type() string { return "bytes" }

// Set parses the text of the command line.
func (b byteSize) Set(text string) error {
	number, shift := text, 0
	if i := strings.IndexAny(text, "kKmMgG"); i >= 0 && i == len(text)-1 {
		number = text[:i]
		shift = map[byte]int{'k': 10, 'm': 20, 'g': 30}[text[i]|0x20]
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt32>>shift {
		return fmt.Errorf("%q is no number of bytes below 2^31, such as 4096, 64K or 1M", text)
	}
	*b.n = int(n) << shift
	return nil
}
