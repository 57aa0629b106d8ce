package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The ends of a pair: a server and its client, two programs on loopback.
const (
	pairClient = "127.0.0.1"
	pairServer = "127.0.0.2"
)

// pairLimit is how long a pair may take.
const pairLimit = time.Minute

// trips returns how many round trips of a subject take about as long as other
// measurements.
func (p *programs) trips(s *subject) int { return max(int(p.seconds*float64(s.rate)), 1) }

// side returns the command line of one end of a pair.
func (p *programs) side(s *subject, server bool, port string) []string {
	own, portFlag := pairClient, "-p"
	if server {
		own = pairServer
	}
	args := p.command(s, 0)
	switch s.run {
	case runConnect:
		args, portFlag = append(args, "--addr", own), "--port"
		if !server {
			args = append(args, "--json", "--connections", strconv.Itoa(p.trips(s)))
		}
	case runOver, runEpoll:
		args = slices.Insert(args, slices.Index(args, "--"), "--addr", own)
	case runFabric:
		portFlag = "-P"
		if server {
			portFlag = "-B"
		}
	}
	args = append(args, portFlag, port)
	if !server && s.serves && s.run == runOver {
		args = append(args, "-s")
	}
	if !server {
		args = append(args, pairServer)
	}
	return args
}

// measurePair runs both ends and returns the figure in the client's output. It
// starts the client when the server listens.
func (p *programs) measurePair(ctx context.Context, s *subject) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, pairLimit)
	defer cancel()
	port, err := freePort()
	if err != nil {
		return 0, err
	}
	var said, served bytes.Buffer
	start := func(server bool, out *bytes.Buffer) (*exec.Cmd, error) {
		args := p.side(s, server, strconv.Itoa(port))
		cmd := program(ctx, args)
		cmd.Stdout, cmd.Stderr = out, out
		return cmd, cmd.Start()
	}
	far, err := start(true, &served)
	if err != nil {
		return 0, err
	}
	serves, gone := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- far.Wait()
		gone()
	}()
	near := far
	client := func() (err error) {
		said.Reset()
		if near, err = start(false, &said); err == nil {
			err = near.Wait()
		}
		return err
	}
	if s.serves {
		err = untilServed(serves, client)
	} else if err = awaitServer(serves, port); err == nil {
		err = client()
	}
	if err != nil || s.serves {
		cancel() // end the server, which waits for another client
	}
	if end := <-ended; !s.serves {
		err = errors.Join(err, end)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w\nclient: %s\nserver: %s", told(near.Args), err, lastLines(said.String()), lastLines(served.String()))
	}
	return s.reads(said.String())
}

// serveLimit is how long a server may take until it listens.
const serveLimit = 5 * time.Second

// untilServed runs a client again until its server serves it: nothing shows when a
// server of the connection manager listens.
func untilServed(ctx context.Context, client func() error) error {
	for end := time.Now().Add(serveLimit); ; {
		err := client()
		if err == nil || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(10 * pause):
		}
	}
}

// lastLines returns the end of a program's output.
func lastLines(text string) string {
	const most = 5
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}

// freePort returns a unused TCP port.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// pause is the time between two polls.
const pause = 5 * time.Millisecond

// awaitServer waits until a program listens on a TCP port.
func awaitServer(ctx context.Context, port int) error {
	for {
		if is, err := listens(port); is || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no server listens on TCP port %d: %w", port, ctx.Err())
		case <-time.After(pause):
		}
	}
}

// tripTime finds the time of a round trip in a ping-pong's output.
func tripTime(out string) (float64, error) {
	words := strings.Fields(out)
	if i := slices.Index(words, "usec/iter"); i > 0 {
		return strconv.ParseFloat(words[i-1], 64)
	}
	return 0, fmt.Errorf("a ping-pong prints no time: %q", lastLines(out))
}
