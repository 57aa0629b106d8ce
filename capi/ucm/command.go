//go:build linux

package ucm

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/softhca/softhca/ib"
)

// ErrAgain is the result of GET_EVENT if the event is gone: the caller has to read the next
// byte.
var ErrAgain = fmt.Errorf("the event is gone: %w", ib.EAGAIN)

// answer is the answer of a command, and where in the program's memory it goes.
type answer struct {
	at    uint64
	bytes []byte
	undo  func() // undoes the command if the answer cannot be delivered; may be nil
}

// commands are the kernel's commands, by their numbers. GET_OPTION was never used.
var commands = [...]func(f *File, in []byte, room int) (answer, error){
	0:  (*File).createID,
	1:  (*File).destroyID,
	2:  (*File).bindIP,
	3:  (*File).resolveIP,
	4:  (*File).resolveRoute,
	5:  (*File).queryRoute,
	6:  (*File).connect,
	7:  (*File).listen,
	8:  (*File).accept,
	9:  (*File).reject,
	10: (*File).disconnect,
	11: (*File).initQPAttr,
	12: (*File).getEvent,
	13: nil,
	14: (*File).setOption,
	15: (*File).notify,
	16: (*File).joinIPMcast,
	17: (*File).leaveMcast,
	18: (*File).migrateID,
	19: (*File).query,
	20: (*File).bind,
	21: (*File).resolveAddr,
	22: (*File).joinMcast,
}

const headerSize = 8

// Write executes the one command that a program wrote. Like the kernel, it ignores bytes beyond
// the length in the header. Before GET_EVENT the caller has read a byte from the pipe.
func (f *File) Write(b []byte) error {
	var h header
	if _, err := binary.Decode(b, binary.NativeEndian, &h); err != nil {
		return fmt.Errorf("%d bytes are no command: %w", len(b), ib.EINVAL)
	}
	in := b[headerSize:]
	switch {
	case int(h.Cmd) >= len(commands) || int(h.In) > len(in):
		return fmt.Errorf("command %d, %d bytes of %d: %w", h.Cmd, h.In, len(in), ib.EINVAL)
	case commands[h.Cmd] == nil:
		return fmt.Errorf("command %d: %w", h.Cmd, syscall.ENOSYS)
	}
	a, err := commands[h.Cmd](f, in[:h.In], int(h.Out))
	f.settle()
	if err != nil || len(a.bytes) == 0 {
		return err
	}
	if err = deliver(a.at, a.bytes); err != nil && a.undo != nil {
		a.undo()
		f.settle()
	}
	return err
}

// on decodes a command about an ID, finds the ID, and calls f with both.
func on[T any](f *File, in []byte, number func(*T) uint32, do func(n *node, c *T) error) error {
	c, err := decode[T](in)
	if err != nil {
		return err
	}
	n, err := f.m.find(f, number(&c))
	if err != nil {
		return err
	}
	return do(n, &c)
}
