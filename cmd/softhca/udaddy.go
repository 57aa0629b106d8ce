package main

import (
	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/cmd/softhca/internal/udaddy"
	"github.com/softhca/softhca/rdmacm"
)

func newUdaddyCommand(g *globals) *cobra.Command {
	f := &udaddyFlags{nodesFlags: nodesFlags{connectFlags: connectFlags{globals: g}}}
	cmd := &cobra.Command{
		Use:   "udaddy [-s HOST]",
		Short: "Find UD queue pairs by SIDR and send datagrams, also with rdma-core's udaddy",
		Long: `udaddy finds a number of UD queue pairs through the connection manager, by SIDR. The client then sends its datagrams to
each, and the server sends as many back. Either side may be the Linux program: options, messages and output are its own, and
so is the port, which is always 7174. It is the server without -s, and with -s the client of the server there.

Both sides must agree on -c, -C and -S. Nobody repeats a datagram that is lost: whoever waits for longer than --idle gives up,
but for a server's wait for its first client. A burst of more than some hundred may overflow the receiver's socket buffer.`,
		Example: `  softhca udaddy -b 127.0.0.1                               a server, and in another terminal its client:
  softhca udaddy -s 127.0.0.1 --addr 127.0.0.2
  softhca udaddy -c 3 -S 1024 --addr eth0                   a server for three connections, and its client elsewhere:
  softhca udaddy -s 192.0.2.7 -c 3 -S 1024
  softhca udaddy -s 192.0.2.7 --fault 'drop op=SIDR_REP nth=1'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.register(cmd, &f.Load, "queue pairs")
	fs := cmd.Flags()
	fs.StringVarP(&f.space, "port-space", "P", "udp", "`port space`: udp; ipoib does not exist with RoCE")
	fs.Uint16VarP(&f.number, "port-space-number", "p", uint16(rdmacm.UDP), "the same as a `number`: 0x111 or 0x2")
	cmd.MarkFlagsMutuallyExclusive("port-space", "port-space-number")
	return cmd
}

// udaddyFlags are the flags of udaddy.
type udaddyFlags struct {
	nodesFlags
	udaddy.Options
	number uint16
}

func (f *udaddyFlags) run(cmd *cobra.Command) (err error) {
	if err := f.check(cmd, &f.Load); err != nil {
		return err
	}
	f.Host, f.Bind, f.TOS = f.host, f.bind, f.typeOfService(cmd)
	f.Space = rdmacm.IPoIB
	if f.portSpace(cmd, "ipoib", "udp") == 1 {
		if f.Space, err = datagramSpace(f.number); err != nil {
			return err
		}
	}
	return f.connectFlags.run(cmd, func(opener adapter.Opener) error {
		return udaddy.Side{Options: f.Options, Opener: opener, Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr()}.Run(cmd.Context())
	})
}

// datagramSpace returns the port space of a number.
func datagramSpace(number uint16) (rdmacm.PortSpace, error) {
	space := rdmacm.PortSpace(number)
	if space != rdmacm.UDP && space != rdmacm.IPoIB {
		return 0, usagef("port space %#x (-p): want %#x for UDP or %#x for IPoIB; the port cannot be chosen", number, uint16(rdmacm.UDP), uint16(rdmacm.IPoIB))
	}
	return space, nil
}
