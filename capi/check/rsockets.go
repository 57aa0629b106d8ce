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

// overRsockets begins a command whose sockets of TCP are to be rsockets. A program that
// waits by select for connections, or forks, needs the second: then librspreload begins
// with a connection of TCP, and puts an rsocket in its place when the first data goes over it.
const (
	overRsockets  = "env LD_PRELOAD=/usr/$LIB/rsocket/librspreload.so:DIR/" + libraries.Preload + " "
	afterAnAccept = "env RDMAV_FORK_SAFE=1 LD_PRELOAD=/usr/$LIB/rsocket/librspreload.so:DIR/" + libraries.Preload + " "
)

// few is a bound of the segments that TCP needs to connect and to end a connection, some
// times: 100 MB would be more than 1500, the file that is fetched more than 100.
const few = 60

// fetched is a file that is served.
const fetched = libraries.Engine

// tcp are programs of TCP whose data rsockets carry.
var tcp = []meeting{
	{
		section: "iperf", server: overRsockets + "iperf -s -P 1 -B SERVER", client: overRsockets + "iperf -n 100M -c SERVER",
		says: "connected with CLIENT", segments: few, // over TCP, it would come from the server's own address
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

// segments returns how many segments TCP has sent in this namespace.
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

// sent returns an error if TCP has sent more segments since there were so many than the
// meeting allows: the data did not go over rsockets.
func (m *meeting) sent(before uint64) error {
	now, err := segments()
	if err != nil || m.segments == 0 || now-before <= m.segments {
		return err
	}
	return fmt.Errorf("TCP has sent %d segments, which is more than %d: the data did not go over rsockets", now-before, m.segments)
}

// equal returns an error if two files do not have the same content, and removes the second.
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
