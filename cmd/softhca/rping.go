package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/cmd/softhca/internal/rping"
)

func newRpingCommand(g *globals) *cobra.Command {
	f := &rpingFlags{connectFlags: connectFlags{globals: g}}
	cmd := &cobra.Command{
		Use:   "rping {-s | -c -a HOST}",
		Short: "Ping by RDMA READ and WRITE, also with rdma-core's rping",
		Long: `rping connects through the connection manager. In each ping the client offers a text, which the server reads by RDMA
READ and writes back by RDMA WRITE. Either side may be the Linux program, which has the same options, ports, messages and output.

The server's adapter is on --addr, else on -a, else on the first network interface that is up; the client's is on --addr,
else on -I, else on the source address of the route to the server.

The server ends with its first client, and refuses others meanwhile; with -P it serves any number at once until it is
interrupted. An interrupted client disconnects before it ends.`,
		Example: `  softhca rping -s -a 127.0.0.1 -v                          a server, and in another terminal its client:
  softhca rping -c -a 127.0.0.1 --addr 127.0.0.2 -v -V -C 10
  softhca rping -s -P -S 3000 --addr eth0                   a server on all addresses of eth0, for many clients
  softhca rping -c -a 192.0.2.7 -S 3000 -C 100 -V           a client of rping -s there
  softhca rping -c -a 192.0.2.7 -C 3 --fault 'drop nth=2'   the same on a bad network
  softhca rping -c -a 192.0.2.7 -C 3 --explain              and explain what went wrong, if anything did`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := cmd.Flags()
	fs.BoolVarP(&f.server, "server", "s", false, "be the server")
	fs.BoolVarP(&f.client, "client", "c", false, "be the client")
	fs.StringVarP(&f.Host, "host", "a", "", "server: `address` to bind to (default any; 0.0.0.0 is any of IPv4); client: the server")
	fs.StringVarP(&f.Source, "source", "I", "", "client: own `address` (default chosen by route)")
	fs.StringVarP(&f.Port, "port", "p", "7174", "`port` number or service name")
	fs.IntVarP(&f.Size, "size", "S", rping.DefaultSize, "`bytes` of a ping's text, 23 to 65535; the server's value is its maximum")
	fs.IntVarP(&f.Count, "count", "C", 0, "client: `pings`; 0 goes on until interrupted")
	fs.BoolVarP(&f.Verbose, "verbose", "v", false, "print the text of each ping")
	fs.BoolVarP(&f.Validate, "validate", "V", false, "client: check that each text comes back as it was sent")
	fs.BoolVarP(&f.Debug, "debug", "d", false, "print every step")
	fs.BoolVarP(&f.Persistent, "persistent", "P", false, "server: serve many clients, until interrupted")
	fs.BoolVarP(&f.OwnQP, "own-qp", "q", false, "create and move the queue pair without the connection manager's help")
	fs.DurationVar(&f.Idle, "idle", 30*time.Second, "give up after this time without an event while connected; 0: never")
	f.register(cmd)
	cmd.MarkFlagsMutuallyExclusive("server", "client")
	cmd.MarkFlagsOneRequired("server", "client")
	return cmd
}

// rpingFlags are the flags of rping.
type rpingFlags struct {
	connectFlags
	rping.Options
	server, client bool
}

func (f *rpingFlags) run(cmd *cobra.Command) error {
	if err := f.Check(); err != nil {
		return &usageError{err}
	}
	switch {
	case f.server && f.Source != "":
		return usagef("-I is for the client: a server binds to -a")
	case f.server:
		if err := f.refuseAtServer(cmd); err != nil {
			return err
		}
	case f.Host == "":
		return usagef("the client needs -a with the address of the server")
	case f.Persistent:
		return usagef("-P is for the server")
	}
	return f.connectFlags.run(cmd, func(opener adapter.Opener) error {
		side := rping.Side{Options: f.Options, Opener: opener, Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr()}
		if f.server {
			return side.Server(cmd.Context())
		}
		return side.Client(cmd.Context())
	})
}
