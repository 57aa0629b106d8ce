//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// limit is how long a program may take.
const limit = 2 * time.Minute

// stand is where programs run.
type stand struct {
	lib  string // the directory of the library and its engine
	port int    // the next TCP port
}

// The addresses of the two adapters.
var (
	addrs4 = [2]string{"127.0.0.1", "127.0.0.2"}
	addrs6 = [2]string{"fd00::1", "fd00::2"}
)

// command returns a program that will run on the library.
func (s *stand) command(ctx context.Context, addr string, out *bytes.Buffer, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+s.lib, "SOFTHCA_ADDR="+addr)
	cmd.Stdout, cmd.Stderr = out, out
	return cmd
}

// run runs a server and its client and returns what went wrong.
func (s *stand) run(ctx context.Context, t *test) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s.port++
	addrs := addrs4
	if t.V6 {
		addrs = addrs6
	}
	args := append(t.Args, t.GID, "0", "-p", strconv.Itoa(s.port))
	var served, said bytes.Buffer
	server := s.command(ctx, addrs[0], &served, args...)
	if err := server.Start(); err != nil {
		return err
	}
	if err := listening(ctx, s.port); err != nil {
		cancel() // which ends the server
		return errors.Join(err, server.Wait(), errors.New(served.String()))
	}
	client := s.command(ctx, addrs[1], &said, append(args, "127.0.0.1")...)
	cerr := client.Run()
	if cerr != nil {
		cancel()
	}
	serr := server.Wait()
	if cerr != nil || serr != nil {
		return fmt.Errorf("client: %v: %s\nserver: %v: %s", cerr, last(said.String()), serr, last(served.String()))
	}
	return nil
}

// runAlone runs a program that needs no partner.
func (s *stand) runAlone(ctx context.Context, want string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var out bytes.Buffer
	if err := s.command(ctx, addrs4[0], &out, args...).Run(); err != nil {
		return fmt.Errorf("%w: %s", err, last(out.String()))
	}
	if !strings.Contains(out.String(), want) {
		return fmt.Errorf("there is no %q in its output: %s", want, last(out.String()))
	}
	return nil
}

// pause is how long to wait before looking again.
const pause = 20 * time.Millisecond

// listening waits until somebody listens on a TCP port, without connecting to
// it: the programs take one connection.
func listening(ctx context.Context, port int) error {
	for {
		for _, addr := range []string{"0.0.0.0", "[::]"} {
			l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("%s:%d", addr, port))
			if err != nil && ctx.Err() == nil {
				return nil
			}
			if err == nil {
				_ = l.Close() // it was only to see
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the server does not listen on TCP port %d: %w", port, ctx.Err())
		case <-time.After(pause):
		}
	}
}

// last returns the last lines of an output.
func last(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return strings.Join(lines[max(0, len(lines)-4):], " | ")
}
