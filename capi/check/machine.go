//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
)

// machine is a virtual machine of QEMU, and the connection that controls it. It emulates the
// processor, so it needs no permission to use the host's.
type machine struct {
	*program
	path string // of the socket, and the prefix of the names of other files
	said bytes.Buffer
	conn net.Conn
	in   *json.Decoder
}

// memorySize is the memory of a machine in bytes.
const memorySize = 64 << 20

// newMachine starts a machine on its own adapter. Its firmware is a file in the stand's
// directory.
func (s *stand) newMachine(ctx context.Context, name, addr, firmware string, options ...string) (*machine, error) {
	m := &machine{path: filepath.Join(s.lib, name)}
	args := append([]string{
		"qemu-system-x86_64", "-M", "pc", "-accel", "tcg", "-m", fmt.Sprintf("%dM", memorySize>>20), "-nodefaults", "-display", "none",
		"-bios", filepath.Join(s.lib, firmware), "-qmp", "unix:" + m.path + ",server=on,wait=off",
	}, options...)
	m.program = s.launched(ctx, []string{addr}, &m.said, args...)
	if err := m.Start(); err != nil {
		return nil, err
	}
	if err := m.connect(); err != nil {
		return nil, errors.Join(err, m.kill(), m.Wait(), errors.New(last(m.said.String())))
	}
	return m, nil
}

// connect waits until a machine listens on its socket, and connects to it.
func (m *machine) connect() error {
	err := m.until("it listens", func() (bool, error) {
		conn, err := net.Dial("unix", m.path)
		m.conn = conn
		return err == nil, nil
	})
	if err != nil {
		return err
	}
	if t, ok := m.ctx.Deadline(); ok {
		if err := m.conn.SetDeadline(t); err != nil {
			return err
		}
	}
	m.in = json.NewDecoder(m.conn)
	var greeting any
	return errors.Join(m.in.Decode(&greeting), m.do("qmp_capabilities", nil, nil))
}

// do sends a machine a command of QEMU's protocol, and decodes the answer unless answer is nil.
func (m *machine) do(command string, args, answer any) error {
	request := map[string]any{"execute": command}
	if args != nil {
		request["arguments"] = args
	}
	if err := json.NewEncoder(m.conn).Encode(request); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	for {
		var a struct {
			Event  string
			Return json.RawMessage
			Error  *struct{ Desc string }
		}
		switch err := m.in.Decode(&a); {
		case err != nil:
			return fmt.Errorf("%s: %w", command, err)
		case a.Event != "": // events may arrive at any time
			continue
		case a.Error != nil:
			return fmt.Errorf("%s: %s", command, a.Error.Desc)
		case answer == nil:
			return nil
		}
		return json.Unmarshal(a.Return, answer)
	}
}

// memory returns bytes of the machine's memory.
func (m *machine) memory(at, size int) ([]byte, error) {
	name := m.path + ".memory"
	if err := m.do("pmemsave", map[string]any{"val": at, "size": size, "filename": name}, nil); err != nil {
		return nil, err
	}
	b, err := os.ReadFile(name)
	return b, errors.Join(err, os.Remove(name))
}

// quit ends a running machine.
func (m *machine) quit() error {
	err := m.do("quit", nil, nil)
	if errors.Is(err, io.EOF) { // QEMU may end without an answer
		err = nil
	}
	return errors.Join(err, m.Wait(), m.conn.Close())
}
