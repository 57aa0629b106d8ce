//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"time"
)

// config is the choices of the command line.
type config struct {
	local    bool
	child    bool
	pingpong bool
	sleep    bool
	tcp      bool
	listen   string
	peer     string
	bind     string
	payload  int
	overhead int
	window   int
	seconds  float64
	trips    int
}

func main() {
	var c config
	flag.BoolVar(&c.local, "local", false, "run the receiver too, as another process on 127.0.0.2")
	flag.BoolVar(&c.child, "child", false, "as receiver, end when standard input does")
	flag.BoolVar(&c.pingpong, "pingpong", false, "measure latency instead of throughput")
	flag.BoolVar(&c.sleep, "sleep", false, "in a ping-pong, sleep in the system until something arrives instead of spinning")
	flag.BoolVar(&c.tcp, "tcp", false, "a stream over TCP instead; not with -local")
	flag.StringVar(&c.listen, "listen", "", "be the receiver on this IPv4 address and port")
	flag.StringVar(&c.peer, "peer", "", "IPv4 address and port of the receiver")
	flag.StringVar(&c.bind, "bind", "0.0.0.0", "IPv4 address of the sender")
	flag.IntVar(&c.payload, "payload", 4096, "bytes of payload in a segment")
	flag.IntVar(&c.overhead, "overhead", minOverhead, "bytes of headers and checksum in a segment")
	flag.IntVar(&c.window, "window", 256<<10, "bytes that may be on their way")
	flag.Float64Var(&c.seconds, "seconds", 3, "how long to measure")
	flag.IntVar(&c.trips, "trips", maxSamples, "end a ping-pong after this number of round trips, or after -seconds")
	flag.Parse()
	if err := run(c); err != nil {
		fmt.Fprintln(os.Stderr, "baseline:", err)
		os.Exit(1)
	}
}

func run(c config) error {
	if c.tcp {
		return runTCP(c)
	}
	if c.listen != "" {
		return runReceiver(c)
	}
	if c.payload < 1 || c.overhead < minOverhead || c.payload+c.overhead > maxRunBytes {
		return fmt.Errorf("a segment needs a payload, %d more bytes, and at most %d in all", minOverhead, maxRunBytes)
	}
	if c.trips < 1 || c.trips > maxSamples {
		return fmt.Errorf("-trips %d: want 1 to %d", c.trips, maxSamples)
	}
	if c.local {
		stop, err := startReceiver(&c)
		if err != nil {
			return err
		}
		defer stop()
	}
	peer, err := netip.ParseAddrPort(c.peer)
	if err != nil {
		return fmt.Errorf("address of the receiver: %w", err)
	}
	bind, err := netip.ParseAddr(c.bind)
	if err != nil {
		return fmt.Errorf("address of the sender: %w", err)
	}
	sock, err := openSocket(netip.AddrPortFrom(bind, 0), c)
	if err != nil {
		return err
	}
	defer sock.close()
	var result any
	duration := time.Duration(c.seconds * float64(time.Second))
	if c.pingpong {
		result, err = pingpong(sock, peer, c.payload+c.overhead, c.trips, duration)
	} else {
		result, err = newSender(sock, peer, c).run(duration)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

// startReceiver runs this program again as the receiver on 127.0.0.2 and puts
// the addresses into c.
func startReceiver(c *config) (stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "-child", "-listen", "127.0.0.2:0", fmt.Sprintf("-pingpong=%v", c.pingpong), fmt.Sprintf("-sleep=%v", c.sleep))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() {
		// The receiver exits when its input ends; its exit code does not matter
		// then.
		_ = in.Close()
		_ = cmd.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return nil, fmt.Errorf("the receiver did not start: %w", err)
	}
	c.bind, c.peer = "127.0.0.1", strings.TrimSpace(line)
	return stop, nil
}

// runReceiver prints its address and serves until the process ends.
func runReceiver(c config) error {
	at, err := netip.ParseAddrPort(c.listen)
	if err != nil {
		return fmt.Errorf("address of the receiver: %w", err)
	}
	sock, err := openSocket(at, c)
	if err != nil {
		return err
	}
	if at, err = sock.local(); err != nil {
		return err
	}
	fmt.Println(at)
	if c.child {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			sock.shut.Store(true)
		}()
	}
	serve := newReceiver(sock).serve
	if c.pingpong {
		serve = func() error { return echo(sock) }
	}
	if err := serve(); !errors.Is(err, errShut) {
		return err
	}
	return nil
}
