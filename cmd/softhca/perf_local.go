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
	"time"

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
	err = f.measure(ctx, cmd, server)
	return errors.Join(err, stop(err == nil))
}

// serverGrace is how long the server may take to end after its client has: it
// ends by itself.
const serverGrace = 10 * time.Second

// startServer runs this program as a server on an address. It returns where
// that listens; stop waits for its end, which it does not bring about while
// the server may be ending well, and returns what went wrong there.
func (f *perfFlags) startServer(ctx context.Context, cmd *cobra.Command, at netip.Addr) (server string, stop func(well bool) error, err error) {
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
	stop = func(well bool) error {
		end := func() { _ = in.Close() } // the child ends with it
		if well {
			defer time.AfterFunc(serverGrace, end).Stop()
		} else {
			end()
		}
		if err := child.Wait(); err != nil {
			return fmt.Errorf("the server: %w", err)
		}
		return nil
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", nil, errors.Join(errors.New("the server did not start"), stop(false))
	}
	return strings.TrimSpace(line), stop, nil
}
