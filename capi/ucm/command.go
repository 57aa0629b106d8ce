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

// handler executes a command, whose answer may have as many bytes as there is room.
type handler func(f *File, in []byte, room int) (answer, error)

// commands are the kernel's commands, by their numbers. GET_OPTION was never used.
var commands = [...]handler{
	0:  plain(binary4, (*File).createID),
	1:  ask(binary4, func(c *destroyID) uint32 { return c.ID }, (*File).destroyID),
	2:  on(func(c *bindIP) uint32 { return c.ID }, (*File).bindIP),
	3:  on(func(c *resolveIP) uint32 { return c.ID }, (*File).resolveIP),
	4:  on(func(c *resolveRoute) uint32 { return c.ID }, (*File).resolveRoute),
	5:  ask(0, func(c *query) uint32 { return c.ID }, (*File).queryRoute),
	6:  on(func(c *connect) uint32 { return c.ID }, (*File).connect),
	7:  on(func(c *listen) uint32 { return c.ID }, (*File).listen),
	8:  on(func(c *accept) uint32 { return c.ID }, (*File).accept),
	9:  on(func(c *reject) uint32 { return c.ID }, (*File).reject),
	10: on(func(c *disconnect) uint32 { return c.ID }, (*File).disconnect),
	11: ask(0, func(c *initQPAttr) uint32 { return c.ID }, (*File).initQPAttr),
	12: plain(shortEvent, (*File).getEvent),
	13: nil,
	14: on(func(c *setOption) uint32 { return c.ID }, (*File).setOption),
	15: on(func(c *notify) uint32 { return c.ID }, (*File).notify),
	16: ask(0, func(c *joinIPMcast) uint32 { return c.ID }, (*File).joinIPMcast),
	17: plain(binary4, (*File).leaveMcast),
	18: plain(0, (*File).migrateID),
	19: ask(0, func(c *query) uint32 { return c.ID }, (*File).query),
	20: on(func(c *bind) uint32 { return c.ID }, (*File).bind),
	21: on(func(c *resolveAddr) uint32 { return c.ID }, (*File).resolveAddr),
	22: ask(0, func(c *joinMcast) uint32 { return c.ID }, (*File).joinMcast),
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

// on returns a command about an ID, whose number it contains, that has no answer.
func on[T any](number func(*T) uint32, do func(f *File, n *node, c *T) error) handler {
	return ask(0, number, func(f *File, n *node, c *T, _ int) (answer, error) { return answer{}, do(f, n, c) })
}

// ask returns a command about an ID that has an answer.
func ask[T any](least int, number func(*T) uint32, do func(f *File, n *node, c *T, room int) (answer, error)) handler {
	return plain(least, func(f *File, c *T, room int) (answer, error) {
		n, err := f.m.find(f, number(c))
		if err != nil {
			return answer{}, err
		}
		return do(f, n, c, room)
	})
}

// plain returns a command that has an answer. It does nothing unless there is room for least
// bytes.
func plain[T any](least int, do func(f *File, c *T, room int) (answer, error)) handler {
	return func(f *File, in []byte, room int) (answer, error) {
		if room < least {
			return answer{}, errNoRoom
		}
		c, err := decode[T](in)
		if err != nil {
			return answer{}, err
		}
		return do(f, &c, room)
	}
}
