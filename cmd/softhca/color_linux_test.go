package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/must"
)

// TestColors prints to a terminal, also one whose size nothing has set: explain and decode
// are colored there, unless NO_COLOR is set.
func TestColors(t *testing.T) {
	for _, size := range []uint16{0, 80} {
		for _, name := range []string{"explain", "decode"} {
			for _, plain := range []bool{false, true} {
				if out := onTerminal(t, size, plain, name, "../../internal/testdata/captures/errs_rnr_exceeded.pcap"); strings.Contains(out, "\x1b[") == plain {
					t.Errorf("%s on a terminal of %d columns, NO_COLOR %v:\n%s", name, size, plain, out)
				}
			}
		}
	}
}

// onTerminal runs the command with standard output on a terminal, and returns what it
// prints.
func onTerminal(t *testing.T, columns uint16, noColor bool, args ...string) string {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err) // no pseudo-terminals are mounted here
	}
	defer master.Close()
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns})
	}
	must.Do(t, err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err) // no pseudo-terminals are mounted here
	}
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", map[bool]string{true: "1"}[noColor])
	printed := make(chan string)
	go func() {
		var all strings.Builder
		b := make([]byte, 4096)
		for {
			n, err := master.Read(b)
			all.Write(b[:n])
			if err != nil { // EIO: the last writer closed the terminal
				printed <- all.String()
				return
			}
		}
	}()
	run(t.Context(), args, slave, slave)
	must.Do(t, slave.Close())
	return <-printed
}
