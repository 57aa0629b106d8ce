//go:build linux

package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
)

// tcpBlock is how much is written, and read, at once.
const tcpBlock = 1 << 20

// tcpPatience bounds the wait for the other side to begin and to end.
const tcpPatience = 30 * time.Second

// runTCP is one side of a stream over TCP.
func runTCP(c config) error {
	switch {
	case c.local || c.pingpong || c.listen == "" && c.peer == "":
		return errors.New("-tcp wants -listen, and in another process -peer")
	case c.listen != "":
		l, err := net.Listen("tcp", c.listen)
		if err != nil {
			return err
		}
		return receiveTCP(l)
	}
	t, err := sendTCP(c.peer, time.Duration(c.seconds*float64(time.Second)))
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(t)
}

// sendTCP sends for a time, and waits until all has arrived.
func sendTCP(peer string, d time.Duration) (*throughput, error) {
	conn, err := net.DialTimeout("tcp", peer, tcpPatience)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // the result is known by then
	block := make([]byte, tcpBlock)
	for i := range block {
		block[i] = byte(i * 7)
	}
	var sent uint64
	begin := time.Now()
	for time.Since(begin) < d {
		n, err := conn.Write(block)
		if err != nil {
			return nil, err
		}
		sent += uint64(n)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return nil, err
	}
	if err := conn.SetReadDeadline(time.Now().Add(tcpPatience)); err != nil {
		return nil, err
	}
	var count [8]byte
	if _, err := io.ReadFull(conn, count[:]); err != nil {
		return nil, fmt.Errorf("wait for the receiver's count: %w", err)
	}
	seconds := time.Since(begin).Seconds()
	if n := binary.BigEndian.Uint64(count[:]); n != sent {
		return nil, fmt.Errorf("%d bytes were sent, %d arrived", sent, n)
	}
	return &throughput{
		Mode: "tcp " + congestionControl(), Payload: tcpBlock, Seconds: seconds,
		Gbps: float64(sent) * 8 / seconds / 1e9,
	}, nil
}

// receiveTCP takes the stream of one sender and tells it how many bytes came. It
// closes the listener.
func receiveTCP(l net.Listener) error {
	conn, err := l.Accept()
	if err := errors.Join(err, l.Close()); err != nil {
		return err
	}
	block := make([]byte, tcpBlock)
	var count [8]byte
	for n := uint64(0); ; {
		k, err := conn.Read(block)
		n += uint64(k)
		switch {
		case errors.Is(err, io.EOF):
			binary.BigEndian.PutUint64(count[:], n)
			_, err = conn.Write(count[:])
			return errors.Join(err, conn.Close())
		case err != nil:
			return err
		}
	}
}

// congestionControl returns the name of the kernel's default congestion
// control.
func congestionControl() string {
	b, err := os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}
