//go:build linux

package programs

import (
	"slices"
	"strings"

	"github.com/softhca/softhca/interop/lab"
	"github.com/softhca/softhca/interop/matrix"
	"github.com/softhca/softhca/interop/netns"
)

// program is a program of rdma-core that connects through the connection
// manager, and our program of the same name. In command lines OWN and PEER
// stand for the addresses of a cell.
type program struct {
	name                     string
	ourServer, ourClient     string // arguments of our command
	peerServer, peerServer6  string // command lines in the guest
	peerClient               string
	serverFlags, clientFlags string // flags that the server or client of either side always gets
}

// The programs.
var (
	rping = program{
		name:      "rping",
		ourServer: "rping -s -a OWN", ourClient: "rping -c --addr OWN -a PEER",
		peerServer: "rping -s", peerServer6: "rping -s -a ::0", peerClient: "rping -c -a OWN",
		serverFlags: "-v", clientFlags: "-v -V",
	}
	ucmatose = program{
		name:      "ucmatose",
		ourServer: "ucmatose --addr " + netns.Tap, ourClient: "ucmatose -s PEER --addr OWN",
		peerServer: "ucmatose", peerServer6: "ucmatose -b ::0", peerClient: "ucmatose -s OWN",
	}
	udaddy = program{
		name:      "udaddy",
		ourServer: "udaddy --addr " + netns.Tap, ourClient: "udaddy -s PEER --addr OWN",
		peerServer: "udaddy", peerServer6: "udaddy -b ::0", peerClient: "udaddy -s OWN",
	}
	simple = program{
		name:      "rdma_client",
		ourServer: "rdma-server -s OWN", ourClient: "rdma-client --addr OWN -s PEER",
		peerServer: "rdma_server", peerServer6: "rdma_server -s PEER", peerClient: "rdma_client -s OWN",
	}
	cmtime = program{
		name:      "cmtime",
		ourServer: "cmtime -b OWN", ourClient: "cmtime --addr OWN -s PEER",
		peerServer: "cmtime", peerServer6: "cmtime -b PEER", peerClient: "cmtime -s OWN",
		clientFlags: "-c 100",
	}
)

// pair returns the two sides of a cell: ours is the server if the cell's
// direction says so. Both get the flags.
func (pr program) pair(l *lab.Lab, c matrix.Cell, flags string) *pair {
	p := &pair{Lab: l, ready: l.CMListener, ourReady: said}
	fill := func(line ...string) []string {
		words := strings.Fields(strings.Join(line, " ") + " " + flags)
		for i, w := range words {
			switch w {
			case "OWN":
				words[i] = l.Own(c).String()
			case "PEER":
				words[i] = l.Peer(c).String()
			}
		}
		return words
	}
	if c.Is("dir", "server") {
		p.ours = fill(pr.ourServer, pr.serverFlags)
		p.guest = "exec " + strings.Join(fill(pr.peerClient, pr.clientFlags), " ")
	} else {
		server := pr.peerServer
		if c.Is("ip", "ipv6") {
			server = pr.peerServer6
		}
		p.ours = fill(pr.ourClient, pr.clientFlags)
		p.guest = "exec " + strings.Join(fill(server, pr.serverFlags), " ")
	}
	if t := c.Get("transport"); t != "" {
		p.ours = append(p.ours, "--transport", t)
	}
	return p
}

// variant is a way to run a program: its name, flags for both sides, for our
// side only, and for the guest's only.
type variant struct{ name, flags, ours, guest string }

// dim returns the dimension of the variants.
func dim(vs []variant) matrix.Dim {
	d := matrix.Dim{Name: "variant"}
	for _, v := range vs {
		d.Values = append(d.Values, v.name)
	}
	return d
}

// variantOf returns the cell's variant.
func variantOf(vs []variant, c matrix.Cell) variant {
	return vs[slices.IndexFunc(vs, func(v variant) bool { return c.Is("variant", v.name) })]
}
