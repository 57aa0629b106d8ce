package main

import (
	"bufio"
	"os"
	"strconv"
	"strings"
)

// listenState is the state of a listening socket in /proc/net/tcp.
const listenState = "0A"

// listens reports whether a program listens on a TCP port of any address. It reads the
// kernel's table instead of binding the port, which could make the program's own bind
// fail.
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
		_ = f.Close() // cannot lose data: it was only read
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
