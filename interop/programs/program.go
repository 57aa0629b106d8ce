//go:build linux

package programs

import (
	"slices"
	"strings"

	"github.com/softhca/softhca/interop/lab"
	"github.com/softhca/softhca/interop/matrix"
)

// program is one of rdma-core's that connect through the connection manager: it runs on
// our library here, and on the kernel in the guest. In its command lines SERVER is the
// address of the server, whichever side that is.
type program struct {
	name                     string
	server, server6, client  string // server6 is the server by IPv6, if it is another line
	serverFlags, clientFlags string // what either side's server, or client, always gets
}

// The programs.
var (
	rping    = program{name: "rping", server: "rping -s -a SERVER", client: "rping -c -a SERVER", serverFlags: "-v", clientFlags: "-v -V"}
	ucmatose = program{name: "ucmatose", server: "ucmatose -b SERVER", client: "ucmatose -s SERVER"}
	udaddy   = program{name: "udaddy", server: "udaddy -b SERVER", client: "udaddy -s SERVER"}
	simple   = program{name: "rdma_client", server: "rdma_server", server6: "rdma_server -s SERVER", client: "rdma_client -s SERVER"}
	cmtime   = program{name: "cmtime", server: "cmtime -b SERVER", client: "cmtime -s SERVER", clientFlags: "-c 100"}
)

// pair returns the two sides of a cell: ours is the server if the cell's
// direction says so. Both get the flags.
func (pr program) pair(l *lab.Lab, c matrix.Cell, flags string) *pair {
	p := &pair{Lab: l, ready: l.CMListener, ourReady: said, own: l.Own(c)}
	ours, at := c.Is("dir", "server"), l.Peer(c)
	if ours {
		at = l.Own(c)
	}
	fill := func(line ...string) []string {
		return strings.Fields(strings.ReplaceAll(strings.Join(append(line, flags), " "), "SERVER", at.String()))
	}
	server := pr.server
	if pr.server6 != "" && c.Is("ip", "ipv6") {
		server = pr.server6
	}
	p.ours, p.guest = fill(server, pr.serverFlags), "exec "+strings.Join(fill(pr.client, pr.clientFlags), " ")
	if !ours {
		p.ours, p.guest = fill(pr.client, pr.clientFlags), "exec "+strings.Join(fill(server, pr.serverFlags), " ")
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
