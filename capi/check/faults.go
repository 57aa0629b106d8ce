//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// broken is a program that is run by softhca run with a rule of faults: what it
// says itself of what it sees.
type broken struct {
	section, rule string
	args          []string
	served        bool // with a server, which has no such rule
	says          string
}

// brokenPrograms are all of them.
var brokenPrograms = []broken{
	{"perftest", "drop p=1 after=1s", []string{"ib_write_bw", "-F", "-x", "0", "-D", "10"}, true, "Failed status 12"},
	{"ibverbs-utils", "fail op=AllocPD errno=ENOMEM", []string{"ibv_rc_pingpong", "-g", "0"}, false, "Couldn't allocate PD"},
}

func (b *broken) name() string {
	return fmt.Sprintf("softhca run --fault '%s' -- %s", b.rule, strings.Join(b.args, " "))
}

// runBroken runs a program, which must fail in its own words.
func (s *stand) runBroken(ctx context.Context, b *broken) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s.port++
	args := append(append([]string{}, b.args...), "-p", strconv.Itoa(s.port))
	var said, served bytes.Buffer
	if b.served {
		server := s.command(ctx, addrs4[0], &served, args...)
		if err := server.Start(); err != nil {
			return "", err
		}
		// The server fails too, or waits for a client that has gone.
		defer func() { cancel(); _ = server.Wait() }()
		if err := listening(ctx, s.port); err != nil {
			return "", fmt.Errorf("%w: %s", err, served.String())
		}
		args = append(args, "127.0.0.1")
	}
	client := s.command(ctx, addrs4[1], &said, append([]string{filepath.Join(s.lib, "softhca"), "run", "--fault", b.rule, "--"}, args...)...)
	err := client.Run()
	if err == nil || !strings.Contains(said.String(), b.says) {
		return "", fmt.Errorf("it ends with %v, and does not say %q: %s", err, b.says, last(said.String()))
	}
	return fmt.Sprintf("says %q", b.says), nil
}
