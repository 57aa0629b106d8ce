package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/simple"
)

func newRDMAServerCommand(g *globals) *cobra.Command {
	f := &stationFlags{globals: g}
	var side simple.Side
	cmd := &cobra.Command{
		Use:     "rdma-server [-s ADDRESS]",
		Aliases: []string{"rdma_server"},
		Short:   "Take one connection and answer one message, as rdma-core's rdma_server does",
		Long: `rdma-server waits for one rdma-client, or rdma-core's rdma_client, takes 16 bytes from it, sends 16 bytes back and ends.
It is the smallest server that uses the connection manager. Options and output are those of the Linux program.

The adapter is on --addr, else on -s, else on the first network interface that is up.`,
		Example: `  softhca rdma-server -s 127.0.0.1          in one terminal, and in another:
  softhca rdma-client -s 127.0.0.1 --addr 127.0.0.2
  softhca rdma-server --addr eth0           for rdma_client -s HOST elsewhere`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if side.Opener, err = f.opener(cmd); err != nil {
				return err
			}
			side.Out, side.Err = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if err := side.Server(cmd.Context()); err != nil {
				return fmt.Errorf("rdma-server: %w", err)
			}
			return nil
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&side.Host, "server", "s", "", "`address` to bind to (default any; 0.0.0.0 is any of IPv4)")
	fs.StringVarP(&side.Port, "port", "p", simplePort, "`port` number or service name")
	fs.DurationVar(&side.Idle, "idle", simpleIdle, "give up when a connected client sends nothing for so long; 0: never")
	f.register(cmd)
	return cmd
}
