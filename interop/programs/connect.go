//go:build linux

package programs

import (
	"context"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/softhca/softhca/interop/lab"
	"github.com/softhca/softhca/interop/matrix"
	"github.com/softhca/softhca/interop/suite"
)

// connect are the cases in which programs connect, do their work and part.
func connect() []suite.Family {
	return []suite.Family{
		variants(rping, "rping with verification: READ and WRITE; queue pairs made by the connection manager or by the programs", []variant{
			{name: "small", flags: "-C 10"}, {name: "packets", flags: "-C 10 -S 3000"}, {name: "large", flags: "-C 10 -S 65000"}, {name: "own-qp", flags: "-C 10 -S 3000 -q"},
			{name: "own-qp-ours", flags: "-C 10 -S 3000", ours: "-q"}, {name: "own-qp-guest", flags: "-C 10 -S 3000", guest: "-q"},
		}),
		variants(ucmatose, "ucmatose: connections at once, messages of no, one and many packets, type of service, port space", []variant{
			{name: "plain"}, {name: "five", flags: "-c 5"}, {name: "many", flags: "-c 5 -C 30 -S 10000"}, {name: "none", flags: "-C 0"}, {name: "empty", flags: "-S 0"}, {name: "migrate", flags: "-m"},
			{name: "tos", flags: "-t 0x68 -a 14"}, {name: "ib", flags: "-P ib"},
		}),
		variants(udaddy, "udaddy: datagrams to queue pairs found by SIDR", []variant{
			{name: "plain"}, {name: "three", flags: "-c 3"}, {name: "many", flags: "-c 3 -C 30 -S 1024"}, {name: "none", flags: "-C 0"}, {name: "tos", flags: "-t 0x68"},
		}),
		variants(simple, "rdma_client and rdma_server", []variant{{name: "plain"}}),
		{
			Name: "cmtime", About: "cmtime: a hundred connections, taken through each step together",
			Dims: []matrix.Dim{matrix.Direction(), matrix.IP()},
			Cost: 6 * time.Second, Run: runCmtime,
			Short: func(c matrix.Cell) bool {
				return c.Is("ip", "ipv4") && c.Is("dir", "client")
			},
		},
	}
}

// variants returns the family of a program in its variants.
func variants(pr program, about string, vs []variant) suite.Family {
	return suite.Family{
		Name: pr.name, About: about,
		Dims: []matrix.Dim{dim(vs), matrix.Direction(), matrix.IP(), matrix.MTU()},
		Short: func(c matrix.Cell) bool {
			return c.Is("mtu", "1024") && c.Is("ip", "ipv4") && c.Is("variant", vs[0].name)
		},
		Run: func(ctx context.Context, l *lab.Lab, c matrix.Cell) suite.Outcome {
			v := variantOf(vs, c)
			p := pr.pair(l, c, v.flags)
			p.more(v.ours, v.guest)
			return p.both(ctx, c)
		},
	}
}

// rate matches the connect step in the output of cmtime's client.
var rate = regexp.MustCompile(`(?m)^connect\s*:.*$`)

// runCmtime runs cmtime, whose server does not exit by itself: the signal ends it.
func runCmtime(ctx context.Context, l *lab.Lab, c matrix.Cell) suite.Outcome {
	p := cmtime.pair(l, c, "")
	p.stopServer = syscall.SIGINT
	e, err := p.run(ctx, c)
	client := e.client(c)
	switch {
	case err != nil:
		return suite.Failed("%s%s", firstLine(err.Error()), e.tell())
	case !client.OK():
		return suite.Failed("%s", strings.TrimPrefix(e.tell(), "; "))
	}
	return suite.Passed("").With("%s", strings.Join(strings.Fields(rate.FindString(client.Stdout)), " "))
}
