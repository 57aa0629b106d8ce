//go:build !portable

package near

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strconv"

	"github.com/softhca/softhca/internal/fabric/near/meeting"
)

// Pairs returns the number of pairs of processes in this network namespace, of any user, that share
// memory. It counts meetings in progress, too.
func Pairs() (int, error) {
	f, err := os.Open("/proc/net/unix")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return pairsIn(f)
}

// pairsIn counts connected sockets with the name of a host. Each meeting has one: that of the process
// that has invited.
func pairsIn(r io.Reader) (n int, err error) {
	const state, name = 5, 7 // fields: number, references, protocol, flags, type, state, inode, name
	const connected = 3
	for lines := bufio.NewScanner(r); ; {
		if !lines.Scan() {
			return n, lines.Err()
		}
		f := bytes.Fields(lines.Bytes())
		if len(f) <= name || !bytes.HasPrefix(f[name], []byte(meeting.NamePrefix)) {
			continue
		}
		if s, err := strconv.ParseUint(string(f[state]), 16, 8); err == nil && s == connected {
			n++
		}
	}
}
