//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/softhca/softhca/internal/namespace"
)

// limit is the time limit of a program, enough also on a busy host.
const limit = 4 * time.Minute

// stand is the environment in which programs run.
type stand struct {
	lib   string // the directory of the libraries and of softhca
	port  int    // the last TCP port that was used
	suite string // of the programs, or host
}

// The addresses of the two adapters.
var (
	addrs4  = [2]string{"127.0.0.1", "127.0.0.2"}
	addrs6  = [2]string{"fd00::1", "fd00::2"}
	outside = [2]string{"10.77.0.1", "10.77.0.2"} // not loopback addresses, which libfabric ignores
)

// places are the addresses of a server and its client: two, and one.
var places = [][2]string{addrs4, {addrs4[0], addrs4[0]}}

// onOne ends the names of the variants whose processes share one address.
const onOne = " # on one address"

// where returns the end of a case's name.
func where(addrs [2]string) string {
	if addrs[0] == addrs[1] {
		return onOne
	}
	return ""
}

// run runs a server and its client, and returns the errors of both.
func (s *stand) run(ctx context.Context, t *test) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s.port++
	args := append(t.Args, "-p", strconv.Itoa(s.port))
	if t.GID != "" {
		args = append(args, t.GID, "0")
	}
	var served, said bytes.Buffer
	command := func(at int, out *bytes.Buffer, args ...string) *program {
		cmd := s.command(ctx, t.Addrs[at], out, args...)
		if t.Run {
			cmd = s.launched(ctx, t.Addrs[at:at+1], out, args...)
		}
		cmd.Env = append(cmd.Env, t.Env...)
		return cmd
	}
	server, client := command(0, &served, args...), command(1, &said, append(args, "127.0.0.1")...)
	if t.Terminal {
		for _, p := range []*program{server, client} {
			hangUp, err := p.withTerminal()
			if err != nil {
				return err
			}
			defer hangUp()
		}
	}
	if err := server.Start(); err != nil {
		return err
	}
	if err := server.listens(s.port); err != nil {
		cancel() // kills the server
		return errors.Join(err, server.Wait(), errors.New(last(served.String())))
	}
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

// runAlone runs a program that needs no peer.
func (s *stand) runAlone(ctx context.Context, p *lone) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	addrs := p.addrs
	if addrs == nil {
		addrs = addrs4[:1]
	}
	var out bytes.Buffer
	cmd := s.launched(ctx, addrs, &out, p.args...)
	cmd.Env = append(cmd.Env, p.env...)
	var err error
	if p.stays {
		cmd.Stdout = nil
		err = await(cmd, p.want)
	} else {
		err = cmd.Run()
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, last(out.String()))
	}
	if !p.stays && !strings.Contains(out.String(), p.want) {
		return fmt.Errorf("there is no %q in its output: %s", p.want, last(out.String()))
	}
	return nil
}

// await runs a program until a line of its output contains want, and then ends it.
func await(cmd *program, want string) error {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	found := false
	for lines := bufio.NewScanner(out); !found && lines.Scan(); {
		found = strings.Contains(lines.Text(), want)
	}
	err = errors.Join(cmd.kill(), cmd.Wait())
	if found {
		return nil
	}
	return fmt.Errorf("there is no %q in its output: %w", want, err)
}

// listens waits until a program listens on a TCP port.
func (p *program) listens(port int) error {
	return p.until(fmt.Sprintf("it listens on TCP port %d", port), func() (bool, error) { return namespace.Listens(port) })
}

// lastLines is how many lines of a failed program's output the report shows.
const lastLines = 12

// last returns the last lines of an output. Equal lines in a row count as one: fio prints the
// same error for each request that was flushed, after the error that explains the failure.
func last(out string) string {
	var lines []string
	before, times := "", 0
	for line := range strings.SplitSeq(strings.TrimSpace(out), "\n") {
		if line == before && times > 0 {
			times++
			lines[len(lines)-1] = fmt.Sprintf("%s (%d times)", line, times)
			continue
		}
		before, times = line, 1
		lines = append(lines, line)
	}
	return strings.Join(lines[max(0, len(lines)-lastLines):], " | ")
}
