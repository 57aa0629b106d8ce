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

// broken is a program that runs under softhca run with a fault rule, and must report the fault in
// its own words.
type broken struct {
	section, rule string
	args          []string
	served        bool // it needs a server, which runs without the rule
	says          string
	addrs         [2]string // of server and client
}

// variants returns a program with a server on another address, and one on the same.
func (b *broken) variants() (all []broken) {
	for _, addrs := range places {
		one := *b
		if one.addrs = addrs; b.served || where(addrs) != "" {
			all = append(all, one)
		}
	}
	return all
}

// brokenPrograms lists them all.
var brokenPrograms = []broken{
	{
		section: "perftest", rule: "drop p=1 after=1s", args: []string{"ib_write_bw", "-F", "-x", "0", "-D", "10"}, served: true,
		says: "Failed status 12",
	},
	{section: "ibverbs-utils", rule: "fail op=AllocPD errno=ENOMEM", args: []string{"ibv_rc_pingpong", "-g", "0"}, says: "Couldn't allocate PD"},
}

func (b *broken) name() string {
	name := fmt.Sprintf("softhca run --fault '%s' -- %s", b.rule, strings.Join(b.args, " "))
	if b.served {
		name += where(b.addrs)
	}
	return name
}

// runBroken runs a program, which must fail in its own words.
func (s *stand) runBroken(ctx context.Context, b *broken) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s.port++
	args := append(append([]string{}, b.args...), "-p", strconv.Itoa(s.port))
	var said, served bytes.Buffer
	if b.served {
		server := s.command(ctx, b.addrs[0], &served, args...)
		if err := server.Start(); err != nil {
			return "", err
		}
		// The server fails too, or waits for a client that has ended.
		defer func() { cancel(); _ = server.Wait() }()
		if err := server.listens(s.port); err != nil {
			return "", fmt.Errorf("%w: %s", err, last(served.String()))
		}
		args = append(args, "127.0.0.1")
	}
	client := s.command(ctx, b.addrs[1], &said, append([]string{filepath.Join(s.lib, "softhca"), "run", "--fault", b.rule, "--"}, args...)...)
	err := client.Run()
	if err == nil || !strings.Contains(said.String(), b.says) {
		return "", fmt.Errorf("it ends with %v, and does not say %q: %s", err, b.says, last(said.String()))
	}
	return fmt.Sprintf("says %q", b.says), nil
}
