//go:build linux

package programs

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/softhca/softhca/interop/lab"
	"github.com/softhca/softhca/interop/matrix"
	"github.com/softhca/softhca/interop/suite"
)

// pingpongPort is the TCP port on which two pingpongs exchange their addresses.
const pingpongPort = 18515

// pingpong are the cases of ibv_rc_pingpong and its kin.
func pingpong() []suite.Family {
	return []suite.Family{{
		Name:  "pingpong",
		About: "ibv_rc_pingpong, ibv_uc_pingpong, ibv_ud_pingpong and ibv_srq_pingpong with softhca pingpong, polling and with events",
		Dims: []matrix.Dim{
			{Name: "type", Values: []string{"rc", "uc", "ud", "srq"}}, matrix.Direction(), matrix.IP(), matrix.MTU(), matrix.Transport(),
			{Name: "wait", Values: []string{"poll", "events"}},
		},
		Short: func(c matrix.Cell) bool {
			return c.Is("ip", "ipv4") && c.Is("mtu", "1024") && c.Is("transport", "udp") && c.Is("wait", "events")
		},
		Cost: 2 * time.Second,
		Run:  runPingpong,
	}}
}

func runPingpong(ctx context.Context, l *lab.Lab, c matrix.Cell) suite.Outcome {
	kind := c.Get("type")
	// So few that a side without CPU time for a while loses none: UC and UD
	// would not repeat them.
	ours, guest := "--iters 40 --transport "+c.Get("transport"), "-n 40"
	if kind == "ud" {
		ours, guest = ours+" --size 1024", guest+" -s 1024"
	} else {
		ours, guest = ours+" --mtu "+c.Get("mtu"), guest+" -m "+c.Get("mtu")
	}
	if c.Is("wait", "events") {
		ours, guest = ours+" --events", guest+" -e"
	}
	return pingpongPair(l, c, kind, ours, guest).bothEnd(ctx, c)
}

// pingpongPair returns the sides of one of the pingpongs, with their flags. The
// programs of rdma-core always exchange their addresses over IPv4.
func pingpongPair(l *lab.Lab, c matrix.Cell, kind, ours, guest string) *pair {
	p := &pair{Lab: l,
		ours:     append([]string{"pingpong", "--type", kind, "--addr", l.Own(c).String()}, strings.Fields(ours)...),
		guest:    fmt.Sprintf("exec ibv_%s_pingpong -g %d %s", kind, l.GIDIndex(c), guest),
		ready:    func(ctx context.Context) error { return l.TCPListener(ctx, pingpongPort) },
		ourReady: func(ctx context.Context, _ lab.Process) error { return l.OwnTCPListener(ctx, pingpongPort) },
	}
	if c.Is("dir", "server") {
		p.guest += " " + l.Own(matrix.Cell{}).String()
	} else {
		p.ours = append(p.ours, l.Peer(matrix.Cell{}).String())
	}
	return p
}
