package main

import (
	"bufio"
	"os"
	"strconv"
	"strings"
)

// listenState is that of a socket which listens, as /proc/net/tcp has it.
const listenState = "0A"

// listens reports whether somebody listens on a TCP port of whatever address. It looks
// and does not try: a port that was tried at the wrong moment is taken for who wants it.
func listens(port int) bool {
	for _, name := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		f, err := os.Open(name)
		if err != nil {
			continue // a kernel without this family
		}
		found := false
		for lines := bufio.NewScanner(f); !found && lines.Scan(); {
			found = listener(lines.Text(), port)
		}
		_ = f.Close() // it was only read
		if found {
			return true
		}
	}
	return false
}

// listener reports whether a line of the kernel's table is of a socket that listens on a
// port.
func listener(line string, port int) bool {
	words := strings.Fields(line)
	if len(words) < 4 || words[3] != listenState {
		return false
	}
	n, err := strconv.ParseUint(words[1][strings.LastIndexByte(words[1], ':')+1:], 16, 16)
	return err == nil && int(n) == port
}
