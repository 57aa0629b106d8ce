package rping

import (
	"encoding/binary"
	"fmt"

	"github.com/softhca/softhca/ib"
)

// messageLen is the size of every message, in bytes.
const messageLen = 16

// message names a buffer of its sender. The server's messages, which only say
// that the client may go on, are zero.
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
