package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/simple"
)

// simplePort is where rdma-server listens by default, as rdma-core's does.
const simplePort = "7471"

// simpleIdle is how long rdma-client and rdma-server wait for a message.
const simpleIdle = 30 * time.Second

func newRDMAClientCommand(g *globals) *cobra.Command {
	f := &stationFlags{globals: g}
	var side simple.Side
	cmd := &cobra.Command{
		Use:     "rdma-client [-s HOST]",
		Aliases: []string{"rdma_client"},
		Short:   "Connect, send one message and get one back, as rdma-core's rdma_client does",
		Long: `rdma-client connects to rdma-server, or to rdma-core's rdma_server, sends 16 bytes, waits for 16 bytes and disconnects.
It is the smallest program that uses the connection manager. Options and output are those of the Linux program.

The adapter is on --addr, else on the address from which the way to the server begins.`,
		Example: `  softhca rdma-server -s 127.0.0.1          in one terminal, and in another:
  softhca rdma-client -s 127.0.0.1 --addr 127.0.0.2
  softhca rdma-client -s 192.0.2.7          with rdma_server running there`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if side.Opener, err = f.opener(cmd); err != nil {
				return err
			}
			side.Out, side.Err = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if err := side.Client(cmd.Context()); err != nil {
				return fmt.Errorf("rdma-client: %w", err)
			}
			return nil
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&side.Host, "server", "s", "127.0.0.1", "`address` or name of the server")
	fs.StringVarP(&side.Port, "port", "p", simplePort, "`port` number or service name")
	fs.DurationVar(&side.Idle, "idle", simpleIdle, "give up when the server sends nothing for so long; 0: never")
	f.register(cmd)
	return cmd
}
