package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/must"
)

// The programs of TestPath: this one, with a first argument.
const (
	farProgram  = "the-far-end"
	nearProgram = "the-near-end"
)

func TestMain(m *testing.M) {
	var err error
	switch at := slices.Index(os.Args, "-path"); {
	case at == 1:
		var share float64
		if _, err = fmt.Sscan(os.Args[2], &share); err == nil {
			err = runPath(context.Background(), share, os.Args[3:])
		}
	case len(os.Args) == 2 && os.Args[1] == farProgram:
		err = farEnd()
	case len(os.Args) == 2 && os.Args[1] == nearProgram:
		err = nearEnd()
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// The packets of the near end: runs that the kernel segments.
const (
	testRuns     = 20
	testSegments = 40
	testSegment  = 1000 // bytes
)

// nearEnd sends runs, each when the one before has been counted, and then asks
// how many segments came.
func nearEnd() error {
	asked, err := net.Dial("tcp", pathServer+":7001") // refused until the far end listens
	if err != nil {
		return err
	}
	conn, err := net.Dial("udp", pathServer+":7000")
	if err != nil {
		return err
	}
	raw, err := conn.(*net.UDPConn).SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT, testSegment) })
	if err := errors.Join(err, set); err != nil {
		return err
	}
	var word [1]byte
	for range testRuns {
		if _, err := conn.Write(make([]byte, testSegments*testSegment)); err != nil {
			return err
		}
		if _, err := asked.Write(word[:]); err != nil {
			return err
		}
		if _, err := io.ReadFull(asked, word[:]); err != nil {
			return err
		}
	}
	if err := asked.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	_, err = io.Copy(os.Stdout, asked)
	return err
}

// farEnd counts the segments that have come each time that it is asked, and
// tells at the end.
func farEnd() error {
	conn, err := net.ListenPacket("udp", pathServer+":7000")
	if err != nil {
		return err
	}
	raw, err := conn.(*net.UDPConn).SyscallConn()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", pathServer+":7001")
	if err != nil {
		return err
	}
	asking, err := l.Accept()
	if err != nil {
		return err
	}
	count, b := 0, make([]byte, 1<<16)
	for word := b[:1]; ; {
		if _, err := asking.Read(word); errors.Is(err, io.EOF) {
			_, err := fmt.Fprintln(asking, count)
			return errors.Join(err, asking.Close())
		} else if err != nil {
			return err
		}
		err := raw.Read(func(fd uintptr) bool { // what was sent before the word is there
			for {
				if _, _, err := unix.Recvfrom(int(fd), b, unix.MSG_DONTWAIT); err != nil {
					return true
				}
				count++
			}
		})
		if err != nil {
			return err
		}
		if _, err := asking.Write(word); err != nil {
			return err
		}
	}
}

// TestPath sends runs of segments over a path that loses a tenth of the packets:
// a tenth is missing, and no whole runs.
func TestPath(t *testing.T) {
	if why := pathMissing(); why != "" {
		// Containers and hardened kernels forbid what it takes.
		t.Skip("it " + why)
	}
	const share = 0.1
	self, err := os.Executable()
	must.Do(t, err)
	args := overPath(share, []string{self, farProgram}, []string{self, nearProgram})
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	isolate(cmd)
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, log.String())
	}
	var n int
	if _, err := fmt.Sscan(string(out), &n); err != nil {
		t.Fatalf("the far end says %q", out)
	}
	// Eight standard deviations: one run in 10^14 is outside.
	const sent, slack = testRuns * testSegments, 68
	if want := int(sent * (1 - share)); n < want-slack || n > want+slack {
		t.Errorf("%d of %d segments came, want %d and at most %d off", n, sent, want, slack)
	}
}

// TestMeanSize tells whole packets from segments that travel together.
func TestMeanSize(t *testing.T) {
	if err := meanSize(&netlink.LinkStatistics{RxBytes: 42140, RxPackets: 10, TxBytes: 640, TxPackets: 10}); err != nil {
		t.Errorf("whole packets: %v", err)
	}
	for why, counts := range map[string]netlink.LinkStatistics{
		"together, in":  {RxBytes: 42141, RxPackets: 10, TxBytes: 640, TxPackets: 10},
		"together, out": {RxBytes: 640, RxPackets: 10, TxBytes: 60000, TxPackets: 10},
	} {
		if err := meanSize(&counts); err == nil {
			t.Errorf("%s: no error", why)
		}
	}
}
