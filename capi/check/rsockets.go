//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/softhca/softhca/internal/libraries"
)

// overRsockets starts a command whose TCP sockets librspreload replaces by rsockets. A program
// that forks, or waits for connections by select, needs afterAnAccept: librspreload then starts
// with a TCP connection, and replaces it by an rsocket when the first data is sent.
const (
	overRsockets  = "env LD_PRELOAD=/usr/$LIB/rsocket/librspreload.so:DIR/" + libraries.Preload + " "
	afterAnAccept = "env RDMAV_FORK_SAFE=1 LD_PRELOAD=/usr/$LIB/rsocket/librspreload.so:DIR/" + libraries.Preload + " "
)

// few is the number of segments that suffice to open and close some TCP connections. 100 MB would
// take more than 1500 segments, the fetched file more than 100.
const few = 60

// fetched is the file that clients fetch.
const fetched = libraries.Engine

// tcp lists TCP programs whose data rsockets carry.
var tcp = []meeting{
	{
		section: "iperf", server: overRsockets + "iperf -s -P 1 -B SERVER", client: overRsockets + "iperf -n 100M -c SERVER",
		says: "connected with CLIENT", segments: few, // over TCP, the client would connect from the server's address
	},
	{
		section: "iperf3", server: afterAnAccept + "iperf3 -s -1 -B SERVER", client: afterAnAccept + "iperf3 -n 100M -c SERVER",
		port: 5201, says: "connected to CLIENT", segments: few,
	},
	{
		section: "iperf3", server: overRsockets + "iperf3 -s -1 -B SERVER", client: overRsockets + "iperf3 -n 100M -c SERVER",
		skip: "librspreload's select tells of another descriptor than that of an accepted rsocket, whose number is the higher one, on any adapter; RDMAV_FORK_SAFE=1 avoids it",
	},
	http("curl", "curl -sS -o DIR/fetched http://SERVER:8000/"+fetched),
	http("wget", "wget -q -O DIR/fetched http://SERVER:8000/"+fetched),
	{
		section: "curl", server: overRsockets + "python3 -m http.server", client: overRsockets + "curl http://SERVER:8000/, of python3 -m http.server",
		skip: "Python makes its sockets with SOCK_CLOEXEC, which rsockets refuse, and librspreload leaves them to TCP",
	},
}

// http returns a client that fetches a file from busybox, which forks for each connection.
func http(section, client string) meeting {
	return meeting{
		section: section, server: afterAnAccept + "busybox httpd -f -p SERVER:8000 -h DIR", client: afterAnAccept + client,
		port: 8000, stays: true, same: [2]string{fetched, "fetched"}, segments: few,
	}
}

// segments returns the number of segments that TCP has sent in this namespace.
func segments() (uint64, error) {
	const name = "/proc/net/snmp"
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	var names []string
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0 || f[0] != "Tcp:":
		case names == nil:
			names = f
		default:
			for i, name := range names {
				if name == "OutSegs" && i < len(f) {
					return strconv.ParseUint(f[i], 10, 64)
				}
			}
		}
	}
	return 0, fmt.Errorf("there is no OutSegs of TCP in %s", name)
}

// sent returns an error if TCP has sent more segments since the count before than the meeting
// allows: then the data did not go over rsockets.
func (m *meeting) sent(before uint64) error {
	now, err := segments()
	if err != nil || m.segments == 0 || now-before <= m.segments {
		return err
	}
	return fmt.Errorf("TCP has sent %d segments, which is more than %d: the data did not go over rsockets", now-before, m.segments)
}

// equal returns an error if the contents of two files differ, and removes the second file.
func (s *stand) equal(names [2]string) error {
	if names[0] == "" {
		return nil
	}
	var content [2][]byte
	for i, name := range names {
		b, err := os.ReadFile(filepath.Join(s.lib, name))
		if err != nil {
			return err
		}
		content[i] = b
	}
	if !bytes.Equal(content[0], content[1]) {
		return fmt.Errorf("%s has %d bytes, %s has %d, and they differ", names[0], len(content[0]), names[1], len(content[1]))
	}
	return os.Remove(filepath.Join(s.lib, names[1]))
}
