//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
)

// migration moves a running machine from one QEMU process to another.
type migration struct {
	addrs  [2]string // of the two processes
	pinned bool      // all memory is registered at the start, not a part at a time
}

func (g *migration) name() string {
	name := "qemu-system-x86_64: migrate rdma:SERVER:4444"
	if g.pinned {
		name += " with rdma-pin-all"
	}
	return name + where(g.addrs)
}

// firmware is the source of the program that the machine runs.
const firmware = "qemu/guest.S"

// rounds is the memory address of the machine's count of completed rounds.
const rounds = 0x1000

// build assembles the firmware.
func (s *stand) build(ctx context.Context) (name string, err error) {
	source, err := s.source(firmware)
	if err != nil {
		return "", err
	}
	name = "guest.bin"
	object := filepath.Join(s.lib, "guest.o")
	for _, args := range [][]string{
		{"gcc", "-m32", "-c", "-o", object, source},
		{"objcopy", "-O", "binary", "-j", ".text", object, filepath.Join(s.lib, name)},
	} {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w: %s", args[0], err, out)
		}
	}
	return name, nil
}

// migrate moves a machine. Afterwards each byte of its memory must be the same, and the machine
// must continue to run.
func (s *stand) migrate(ctx context.Context, g *migration) (string, error) {
	if runtime.GOARCH != "amd64" {
		return "skipped: the program of the machine needs an x86 assembler", nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	name, err := s.build(ctx)
	if err != nil {
		return "", err
	}
	to, err := s.newMachine(ctx, "to", g.addrs[1], name, "-S", "-incoming", "defer")
	if err != nil {
		return "", err
	}
	defer func() { _ = to.kill() }() // it has ended unless something failed
	from, err := s.newMachine(ctx, "from", g.addrs[0], name)
	if err != nil {
		return "", err
	}
	defer func() { _ = from.kill() }() // as above
	if err = g.run(from, to); err == nil {
		err = errors.Join(from.quit(), to.quit())
	}
	if err != nil {
		err = fmt.Errorf("%w\nfrom: %s\nto: %s", err, last(from.said.String()), last(to.said.String()))
	}
	return "ok", err
}

func (g *migration) run(from, to *machine) error {
	if err := from.beyond(0); err != nil {
		return err
	}
	before, err := from.rounds()
	if err != nil {
		return err
	}
	if err = g.move(from, to); err != nil {
		return err
	}
	left, err := from.memory(0, memorySize)
	if err != nil {
		return err
	}
	now := binary.LittleEndian.Uint32(left[rounds:])
	if now == before {
		return errors.New("the machine has not run while it was moved")
	}
	come, err := to.memory(0, memorySize)
	if err != nil {
		return err
	}
	const page = 4096
	for at := 0; at < memorySize; at += page {
		if !bytes.Equal(left[at:at+page], come[at:at+page]) {
			return fmt.Errorf("the memory is not the same: in the page at %#x and perhaps others", at)
		}
	}
	if err := to.do("cont", nil, nil); err != nil {
		return err
	}
	return to.beyond(now)
}

// move moves a machine to another, which must wait for it.
func (g *migration) move(from, to *machine) error {
	pin := map[string]any{"capabilities": []any{map[string]any{"capability": "rdma-pin-all", "state": g.pinned}}}
	where := map[string]any{"uri": "rdma:" + g.addrs[1] + ":4444"}
	for _, c := range []struct {
		of      *machine
		command string
		args    any
	}{
		{from, "migrate-set-capabilities", pin},
		{to, "migrate-set-capabilities", pin},
		// Slowly enough that most is sent while the machine runs; and it may stand still for
		// long enough that a busy host can send the rest.
		{from, "migrate-set-parameters", map[string]any{"max-bandwidth": memorySize, "downtime-limit": 500}},
		{to, "migrate-incoming", where},
		{from, "migrate", where},
	} {
		if err := c.of.do(c.command, c.args, nil); err != nil {
			return err
		}
	}
	for _, m := range []*machine{from, to} { // both: the second reports the end later
		err := m.until("it has been moved", func() (bool, error) {
			var now struct{ Status string }
			err := m.do("query-migrate", nil, &now)
			if now.Status == "failed" {
				err = errors.New("the migration has failed")
			}
			return now.Status == "completed", err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// rounds returns how many rounds a machine has completed.
func (m *machine) rounds() (uint32, error) {
	b, err := m.memory(rounds, 4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

// beyond waits until a machine has completed more than n rounds.
func (m *machine) beyond(n uint32) error {
	return m.until(fmt.Sprintf("it has done %d rounds", n+1), func() (bool, error) {
		done, err := m.rounds()
		return err == nil && done > n, err
	})
}
