package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"
)

// runLocal measures between two processes of this host: this one, and the
// same program again as the server.
func (f *perfFlags) runLocal(ctx context.Context, cmd *cobra.Command) error {
	if f.addr == "" {
		f.addr = "127.0.0.1"
	}
	own, err := netip.ParseAddr(f.addr)
	if err != nil {
		return usagef("--local takes one IP address as --addr: %w", err)
	}
	server, stop, err := f.startServer(ctx, cmd, own.Next())
	if err != nil {
		return err
	}
	return errors.Join(f.measure(ctx, cmd, server), stop())
}

// startServer runs this program as a server on an address. It returns where
// that listens; stop ends it and returns what went wrong there.
func (f *perfFlags) startServer(ctx context.Context, cmd *cobra.Command, at netip.Addr) (server string, stop func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	child := exec.CommandContext(ctx, self, "perf", f.plan.Op.String(), "--child",
		"--addr", at.String(), "--transport", f.transport, "--log-level", f.logLevel)
	child.Stderr = cmd.ErrOrStderr()
	in, err := child.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := child.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := child.Start(); err != nil {
		return "", nil, fmt.Errorf("start the server: %w", err)
	}
	stop = func() error {
		_ = in.Close() // the child ends with it, if it has not ended
		if err := child.Wait(); err != nil {
			return fmt.Errorf("the server: %w", err)
		}
		return nil
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", nil, errors.Join(errors.New("the server did not start"), stop())
	}
	return strings.TrimSpace(line), stop, nil
}
