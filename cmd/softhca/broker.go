package main

import (
	"github.com/spf13/cobra"

	"github.com/softhca/softhca/internal/broker"
	"github.com/softhca/softhca/internal/device"
)

// defaultSlots is how many processes share an address if nobody says otherwise.
const defaultSlots = 64

func newBrokerCommand(g *globals) *cobra.Command {
	slots := 0
	cmd := &cobra.Command{
		Use:   "broker",
		Short: "Let many processes share one address",
		Long: `broker serves an address, until it is interrupted, for processes of the same user: each that opens an adapter on it
afterwards, in Go or through libibverbs, shares the address with the others, with UDP port 4791 and the node GUID. They need no
option but the same --addr.

Processes share addresses without it, too: the first is the broker of those that come later, and another takes over when it ends.
This command is for who wants the broker to be a process of its own: that no program can stop, or with more --slots. It is to be
started before the others are.

The broker opens the sockets and hands them out; the kernel finds the process of a packet by the upper 8 bits of the
destination QPN, so data passes the broker by. Only connection messages come to it, and it forwards them to the process that
listens on the port or has the connection. When a process dies, it disconnects the peers in its name.

When the broker itself ends or is killed, the processes' data goes on. New connections wait until a broker with the same --addr
is there; it finds the sockets with those who use them.

--addr is an address, several (a,b) that processes use together or one by one, or a network interface. --slots and addresses
multiply: they need (slots + 2) x addresses sockets, 252 at most. Containers with network namespaces of their own have brokers
of their own.

The exit code is 1 if the address is in use, also by processes that share it already.`,
		Example: `  softhca broker --addr 127.0.0.1
  softhca broker --addr eth0 --slots 100
  softhca rping --addr 127.0.0.1 -s                in other terminals
  softhca rping --addr 127.0.0.1 -c -a 127.0.0.1
  softhca devices --addr 127.0.0.1                 who is on`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			defer func() { err = named(cmd, err) }()
			if err := refuseZero(cmd, "slots"); err != nil {
				return err
			}
			if slots < 0 {
				return usagef("--slots %d: want 1 or more", slots)
			}
			who, err := device.Identify(device.Config{Addr: g.addr, Env: device.ProcessEnvironment()})
			if err != nil {
				return err
			}
			stderr := cmd.ErrOrStderr()
			b, err := broker.Open(broker.Config{
				Addrs: who.Addrs, Slots: slots, GUID: who.NodeGUID,
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
	cmd.Flags().IntVar(&slots, "slots", defaultSlots, "how many processes can share the address")
	return cmd
}
