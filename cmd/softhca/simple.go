package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/cmd/softhca/internal/simple"
)

func newRDMAClientCommand(g *globals) *cobra.Command {
	var side simple.Side
	f := &connectFlags{globals: g}
	cmd := newSimpleCommand(f, &side, func(cmd *cobra.Command) error { return side.Client(cmd.Context()) })
	cmd.Use, cmd.Aliases = "rdma-client [-s HOST]", []string{"rdma_client"}
	cmd.Short = "Connect, send one message and get one back, as rdma-core's rdma_client does"
	cmd.Long = `rdma-client connects to rdma-server, or to rdma-core's rdma_server, sends 16 bytes, waits for 16 bytes and disconnects.
It is the smallest program that uses the connection manager. Options and output are those of the Linux program.

The adapter is on --addr, else on the source address of the route to the server.`
	cmd.Example = `  softhca rdma-server -s 127.0.0.1          in one terminal, and in another:
  softhca rdma-client -s 127.0.0.1 --addr 127.0.0.2
  softhca rdma-client -s 192.0.2.7          with rdma_server running there`
	f.register(cmd)
	cmd.Flags().StringVarP(&side.Host, "server", "s", "127.0.0.1", "`address` or name of the server")
	cmd.Flags().Lookup("idle").Usage = "give up if the server sends nothing for this time; 0: never"
	return cmd
}

func newRDMAServerCommand(g *globals) *cobra.Command {
	var side simple.Side
	cmd := newSimpleCommand(&connectFlags{globals: g}, &side, func(cmd *cobra.Command) error { return side.Server(cmd.Context()) })
	cmd.Use, cmd.Aliases = "rdma-server [-s ADDRESS]", []string{"rdma_server"}
	cmd.Short = "Take one connection and answer one message, as rdma-core's rdma_server does"
	cmd.Long = `rdma-server waits for one rdma-client, or rdma-core's rdma_client, takes 16 bytes from it, sends 16 bytes back and ends.
It is the smallest server that uses the connection manager. Options and output are those of the Linux program.

The adapter is on --addr, else on -s, else on the first network interface that is up.`
	cmd.Example = `  softhca rdma-server -s 127.0.0.1          in one terminal, and in another:
  softhca rdma-client -s 127.0.0.1 --addr 127.0.0.2
  softhca rdma-server --addr eth0           for rdma_client -s HOST elsewhere`
	cmd.Flags().StringVarP(&side.Host, "server", "s", "", "`address` to bind to (default any; 0.0.0.0 is any of IPv4)")
	cmd.Flags().Lookup("idle").Usage = "give up if a connected client sends nothing for this time; 0: never"
	return cmd
}

// newSimpleCommand returns the common part of both commands. The flags set side
// before run is called.
func newSimpleCommand(f *connectFlags, side *simple.Side, run func(*cobra.Command) error) *cobra.Command {
	cmd := &cobra.Command{Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return f.run(cmd, func(opener adapter.Opener) error {
			side.Opener, side.Out, side.Err = opener, cmd.OutOrStdout(), cmd.ErrOrStderr()
			return run(cmd)
		})
	}}
	fs := cmd.Flags()
	fs.StringVarP(&side.Port, "port", "p", "7471", "`port` number or service name")
	fs.DurationVar(&side.Idle, "idle", 30*time.Second, "")
	return cmd
}
