package rping

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/printable"
)

// messageLen is the size of every message, in bytes.
const messageLen = 16

// message names a buffer of its sender. The server's messages are zero: they only tell
// the client to continue.
//
//	0      address
//	8      R_Key
//	12     size in bytes
type message struct {
	addr uint64
	rkey ib.RKey
	size uint32
}

// put writes the message, big-endian.
func (m message) put(b *[messageLen]byte) {
	binary.BigEndian.PutUint64(b[0:], m.addr)
	binary.BigEndian.PutUint32(b[8:], uint32(m.rkey))
	binary.BigEndian.PutUint32(b[12:], m.size)
}

// parseMessage reads what a peer sent.
func parseMessage(b []byte) (message, error) {
	if len(b) != messageLen {
		return message{}, fmt.Errorf("received bogus data, size %d: want %d", len(b), messageLen)
	}
	return message{
		addr: binary.BigEndian.Uint64(b[0:]),
		rkey: ib.RKey(binary.BigEndian.Uint32(b[8:])),
		size: binary.BigEndian.Uint32(b[12:]),
	}, nil
}

// The characters after the number of a ping. They repeat cyclically, and each ping
// starts one character later.
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

// textLen returns the length of the text in b with its zero, or the length of b if the
// peer sent no zero.
func textLen(b []byte) int {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return i + 1
	}
	return len(b)
}

// text returns the content of b for printing. Control characters of the peer, which
// could control the terminal, become dots.
func text(b []byte) string {
	return printable.Mask(string(bytes.TrimSuffix(b[:textLen(b)], []byte{0})), '.')
}
