//go:build linux

package programs

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/softhca/softhca/interop/lab"
	"github.com/softhca/softhca/interop/matrix"
	"github.com/softhca/softhca/interop/netns"
	"github.com/softhca/softhca/interop/suite"
)

// clients is the number of clients that ping a server at once, in addition to
// the one that is killed.
const clients = 4

// crowd are the cases of a server for many clients.
func crowd() []suite.Family {
	return []suite.Family{{
		Name:  "rping-persistent",
		About: "rping -s -P with four clients at once, and one more that is killed in the middle",
		Dims:  []matrix.Dim{matrix.Direction(), matrix.IP(), matrix.MTU()},
		Short: func(c matrix.Cell) bool { return c.Is("ip", "ipv4") && c.Is("mtu", "1024") },
		Cost:  5 * time.Second,
		Loose: suite.Gone,
		Run:   runCrowd,
	}}
}

// persistent is the server, which serves any number of clients.
var persistent = program{server: "rping -s -P -a SERVER -S 3000"}

func runCrowd(ctx context.Context, l *lab.Lab, c matrix.Cell) suite.Outcome {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server, err := persistent.pair(l, c, "").serve(ctx, c)
	if err != nil {
		return suite.Failed("%s", firstLine(err.Error()))
	}
	all := make([]lab.Process, clients+1)
	for i := range all {
		flags := "-C 50 -S 3000 -V -v"
		if i == clients {
			flags = "-C 0 -S 3000 -v"
		}
		if all[i], err = crowdClient(ctx, l, c, i, flags); err != nil {
			return suite.Failed("%s", firstLine(err.Error()))
		}
		// The server keeps one new connection in hand: of two that come at once it
		// forgets the first.
		if err := all[i].Await(ctx, pinging); err != nil {
			return suite.Failed("client %d: %s", i, firstLine(err.Error()))
		}
	}
	killed := all[clients]
	if err := killed.Signal(syscall.SIGKILL); err != nil {
		return suite.Failed("the client to be killed: %s", firstLine(err.Error()))
	}
	for i, p := range all[:clients] {
		r, err := p.Wait()
		l.Log("client %d:\n%v", i, r)
		if err != nil || !r.OK() {
			return suite.Failed("client %d: exit code %d %s", i, r.Exit, lastLine(r))
		}
	}
	if err := server.Signal(syscall.SIGINT); err != nil {
		return suite.Failed("%v", err)
	}
	r, err := server.Wait()
	l.Log("server:\n%v", r)
	if err != nil {
		return suite.Failed("server: exit code %d %s", r.Exit, lastLine(r))
	}
	return suite.Passed("")
}

// crowdClient starts client i. Each of our clients is an adapter with its own
// address.
func crowdClient(ctx context.Context, l *lab.Lab, c matrix.Cell, i int, flags string) (lab.Process, error) {
	if c.Is("dir", "server") {
		return l.Peers(ctx, fmt.Sprintf("exec rping -c -a %v %s", l.Own(c), flags))
	}
	own := netip.MustParseAddr(fmt.Sprintf("10.77.0.%d", 100+i))
	if c.Is("ip", "ipv6") {
		own = netip.MustParseAddr(fmt.Sprintf("fd00:77::%d", 100+i))
	}
	if err := netns.AddAddress(own); err != nil {
		return nil, err
	}
	return l.OnLibrary(ctx, own, nil, append([]string{"rping", "-c", "-a", l.Peer(c).String()}, strings.Fields(flags)...)...)
}
