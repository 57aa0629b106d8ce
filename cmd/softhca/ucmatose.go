package main

import (
	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/cmd/softhca/internal/ucmatose"
	"github.com/softhca/softhca/rdmacm"
)

func newUcmatoseCommand(g *globals) *cobra.Command {
	f := &ucmatoseFlags{nodesFlags: nodesFlags{connectFlags: connectFlags{globals: g}}}
	cmd := &cobra.Command{
		Use:   "ucmatose [-s HOST]",
		Short: "Connect many RC queue pairs and send messages, also with rdma-core's ucmatose",
		Long: `ucmatose connects a number of RC queue pairs at once through the connection manager. The server then sends its
messages on each, the client sends as many back, and the server disconnects. Either side may be the Linux program: options,
port, messages and output are its own. It is the server without -s, and with -s the client of the server there.

Both sides must agree on -c, -C and -S. The server ends when all its connections have ended. Whoever waits for the other side
for longer than --idle gives up, but for a server's wait for its first client.`,
		Example: `  softhca ucmatose -b 127.0.0.1                             a server, and in another terminal its client:
  softhca ucmatose -s 127.0.0.1 --addr 127.0.0.2
  softhca ucmatose -c 5 -C 100 -S 4000 --addr eth0          a server for five connections, and its client elsewhere:
  softhca ucmatose -s 192.0.2.7 -c 5 -C 100 -S 4000
  softhca ucmatose -s 192.0.2.7 --fault 'drop op=RTU nth=1' --capture rtu.pcapng`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.register(cmd, &f.Load, "connections")
	fs := cmd.Flags()
	fs.StringVarP(&f.space, "port-space", "P", "tcp", "`port space`: tcp or ib")
	fs.StringVarP(&f.Port, "port", "p", "7471", "`port` number or service name")
	fs.BoolVarP(&f.Migrate, "migrate", "m", false, "move the connections to another event channel before they end")
	fs.Uint8VarP(&f.ackTimeout, "ack-timeout", "a", 0, "local ACK timeout of the queue pairs, a `code`: 4.096 µs times two to its power, 0 to 31")
	return cmd
}

// ucmatoseFlags are the flags of ucmatose.
type ucmatoseFlags struct {
	nodesFlags
	ucmatose.Options
	ackTimeout uint8
}

func (f *ucmatoseFlags) run(cmd *cobra.Command) error {
	if err := f.check(cmd, &f.Load); err != nil {
		return err
	}
	f.Host, f.Bind, f.TOS = f.host, f.bind, f.typeOfService(cmd)
	f.Space = []rdmacm.PortSpace{rdmacm.IB, rdmacm.TCP}[f.portSpace(cmd, "ib", "tcp")]
	if cmd.Flags().Changed("ack-timeout") {
		if f.ackTimeout > 31 {
			return usagef("--ack-timeout %d: want a code of 5 bits, 0 to 31", f.ackTimeout)
		}
		f.AckTimeout = &f.ackTimeout
	}
	return f.connectFlags.run(cmd, func(opener adapter.Opener) error {
		return ucmatose.Side{Options: f.Options, Opener: opener, Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr()}.Run(cmd.Context())
	})
}
