package namespace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// Listens reports whether a program in the network of this process listens on a TCP port of any
// address. It reads the kernel's table: connecting would use up the one connection that some
// programs accept, and binding the port could make the program's own bind fail.
func Listens(port int) (bool, error) {
	for _, name := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		table, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a kernel without this family
			return false, fmt.Errorf("namespace: %w", err)
		}
		for line := range strings.Lines(string(table)) {
			if listener(line, port) {
				return true, nil
			}
		}
	}
	return false, nil
}

// listener reports whether a line of the kernel's table is of a socket that listens on a port.
func listener(line string, port int) bool {
	const listening = "0A" // the state
	words := strings.Fields(line)
	if len(words) < 4 || words[3] != listening {
		return false
	}
	n, err := strconv.ParseUint(words[1][strings.LastIndexByte(words[1], ':')+1:], 16, 16)
	return err == nil && int(n) == port
}
