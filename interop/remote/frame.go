package remote

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Port is the TCP port of the agent in the guest.
const Port = 5555

// Kind says what a frame carries.
type Kind byte

// The kinds of frames. The runner sends Run once and then any number of Input,
// InputEnd and Signal; the agent sends Stdout and Stderr and at the end Exit.
const (
	Run      Kind = 'r' // a script for /bin/sh
	Input    Kind = 'i' // bytes for its standard input
	InputEnd Kind = 'z' // the end of its standard input
	Signal   Kind = 's' // a byte: the signal to send to its process group
	Stdout   Kind = 'o'
	Stderr   Kind = 'e'
	Exit     Kind = 'x' // a byte: the exit code, or 128 plus the signal that ended it
)

// MaxFrame bounds the payload of a frame, in bytes.
const MaxFrame = 1 << 20

// Write writes one frame. It is not safe for concurrent use.
func Write(w io.Writer, k Kind, payload []byte) error {
	if len(payload) > MaxFrame {
		return fmt.Errorf("remote: write: %d bytes in a frame, more than %d", len(payload), MaxFrame)
	}
	b := make([]byte, 5, 5+len(payload))
	b[0] = byte(k)
	binary.BigEndian.PutUint32(b[1:], uint32(len(payload)))
	if _, err := w.Write(append(b, payload...)); err != nil {
		return fmt.Errorf("remote: write: %w", err)
	}
	return nil
}

// Read reads one frame. The caller owns its payload. The error is io.EOF if the
// stream ends between two frames.
func Read(r io.Reader) (Kind, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > MaxFrame {
		return 0, nil, fmt.Errorf("remote: read: a frame of %d bytes, more than %d", n, MaxFrame)
	}
	payload := make([]byte, n)
	if _, err := io.ReadFull(r, payload); err != nil {
		return 0, nil, fmt.Errorf("remote: read: %w", io.ErrUnexpectedEOF)
	}
	return Kind(head[0]), payload, nil
}
