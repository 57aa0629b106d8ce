package stream

import (
	"encoding/binary"
	"fmt"

	"github.com/softhca/softhca/ib"
)

// greeting is the private data of REQ and REP between two Conns.
//
//	byte    field
//	 0- 6   "softhca"
//	 7      version, 1
//	 8-11   buffers: maximum number of messages in flight to this side
//	12-15   size: maximum number of bytes of each
type greeting struct{ buffers, size uint32 }

const (
	greetingSize = 16
	greetingHead = "softhca\x01"
)

func (g greeting) encode() []byte {
	b := make([]byte, 0, greetingSize)
	b = append(b, greetingHead...)
	b = binary.BigEndian.AppendUint32(b, g.buffers)
	return binary.BigEndian.AppendUint32(b, g.size)
}

// parseGreeting reads the private data of a peer. EINVAL if the peer is not a Conn, or
// if the values are invalid.
func parseGreeting(b []byte) (greeting, error) {
	if len(b) < greetingSize || string(b[:len(greetingHead)]) != greetingHead {
		return greeting{}, fmt.Errorf("the peer does not speak the stream protocol: %w", ib.EINVAL)
	}
	g := greeting{buffers: binary.BigEndian.Uint32(b[8:]), size: binary.BigEndian.Uint32(b[12:])}
	if g.buffers < minBuffers || g.buffers > maxBuffers || g.size < 1 || g.size > maxSize {
		return greeting{}, fmt.Errorf("the peer has %d buffers of %d bytes: %w", g.buffers, g.size, ib.EINVAL)
	}
	return g, nil
}
