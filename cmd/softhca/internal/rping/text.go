package rping

import (
	"bytes"
	"fmt"
	"unicode"
)

// The characters that follow the number of a ping: they start one further with
// each, and run in a circle.
const (
	firstChar = 'A'
	lastChar  = 'z'
	chars     = lastChar - firstChar + 1
)

// fill writes the text of ping n to all of b, with a zero at its end.
func fill(b []byte, n int) {
	end := len(b) - 1
	at := copy(b[:end], fmt.Sprintf("rdma-ping-%d: ", n))
	for i := range b[at:end] {
		b[at+i] = byte(firstChar + (n+i)%chars)
	}
	b[end] = 0
}

// textLen returns how many bytes the text in b has with its zero; all of b if
// a peer sent none.
func textLen(b []byte) int {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return i + 1
	}
	return len(b)
}

// text returns what is in b for printing; a peer's control characters, which a
// terminal would obey, are dots.
func text(b []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '.'
	}, bytes.TrimSuffix(b[:textLen(b)], []byte{0}))
}
