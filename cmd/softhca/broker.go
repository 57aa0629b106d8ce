package main

import (
	"github.com/spf13/cobra"

	"github.com/softhca/softhca/internal/broker"
	"github.com/softhca/softhca/internal/device"
)

// defaultSlots is the default of --slots.
const defaultSlots = 64

func newBrokerCommand(g *globals) *cobra.Command {
	slots := 0
	cmd := &cobra.Command{
		Use:   "broker",
		Short: "Let many processes share one address",
		Long: `broker serves an address until it is interrupted. All processes of the same user that open an adapter on the address,
in Go or through libibverbs, then share the address, UDP port 4791 and the node GUID. Start them with the same --addr;
they need no other option.

Processes share an address without this command, too: the first one is the broker, and another takes over when it ends.
Use this command if the broker must outlive the programs or needs more --slots. Start it before the programs.

The broker opens the sockets and hands them out. The kernel selects the process for a packet by the upper 8 bits of the
destination QPN, so data does not pass through the broker. The broker receives only connection messages, and
forwards each to the process that listens on the port or has the connection. When a process dies, the broker disconnects
its peers.

When the broker ends or is killed, data still flows. New connections wait until a broker with the same --addr
starts; it takes over the sockets from the processes that use them.

--addr is an address, several (a,b) that processes use together or singly, or a network interface. The broker needs
(slots + 4) x addresses sockets, at most 252. Each network
namespace, and so each container with its own, has its own brokers.

The exit code is 1 if the address is in use, also if processes already share it.`,
		Example: `  softhca broker --addr 127.0.0.1
  softhca broker --addr eth0 --slots 100
  softhca run --addr 127.0.0.1 -- rping -s         in other terminals
  softhca run --addr 127.0.0.1 -- rping -c -a 127.0.0.1
  softhca devices --addr 127.0.0.1                 lists the processes that share it`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			defer func() { err = named(cmd, err) }()
			if err := refuseZero(cmd, "slots"); err != nil {
				return err
			}
			if slots < 0 {
				return usagef("--slots %d: want 1 or more", slots)
			}
			env := device.ProcessEnvironment()
			who, err := device.Identify(device.Config{Addr: g.addr, Env: env})
			if err != nil {
				return err
			}
			stderr := cmd.ErrOrStderr()
			b, err := broker.Open(broker.Config{
				Addrs: who.Addrs, Slots: slots, GUID: who.NodeGUID, Secret: env.Secret(),
				Log: func(format string, args ...any) { say(stderr, "broker: "+format, args...) },
			})
			if err != nil {
				return err
			}
			taken := ""
			if b.Recovered() {
				taken = ", taken over from one that has died"
			}
			say(stderr, "broker on %v for %d processes%s", who.Addrs, b.Slots(), taken)
			return b.Serve(cmd.Context())
		},
	}
	cmd.Flags().IntVar(&slots, "slots", defaultSlots, "maximum number of processes that share the address")
	return cmd
}
