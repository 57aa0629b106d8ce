package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/cmd/softhca/internal/mckey"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
)

func newMckeyCommand(g *globals) *cobra.Command {
	// It sends no message of the connection manager, so there is nothing to set.
	f := &mckeyFlags{connectFlags: connectFlags{globals: g, timeout: ib.AckTimeout(cmTimeout), retries: cmRetries}}
	cmd := &cobra.Command{
		Use:   "mckey -m GROUP [-s]",
		Short: "Send and receive multicast datagrams, also with rdma-core's mckey",
		Long: `mckey has a number of UD queue pairs join a multicast group through the connection manager. With -s each then sends its
datagrams to the group; without -s each receives as many, from whomever they come. Either side may be the Linux program
(which has only IPv4 here): options, messages and output are its own. There may be several senders and receivers.

All sides wait for --pause between joining and sending: the receivers must be there when the first datagram is sent. Nobody
repeats one that is lost. A receiver waits for its first datagram as long as it takes; if then nothing comes for --idle,
it gives up.

The adapter is on --addr, else on -b, else on the address from which the way to the group begins.`,
		Example: `  softhca mckey -m 239.77.0.1 -b 127.0.0.1                  a receiver, and in another terminal a sender:
  softhca mckey -m 239.77.0.1 -b 127.0.0.2 -s
  softhca mckey -m ff15::77 --addr eth0 -c 2 -C 100         two queue pairs that receive a hundred datagrams each
  softhca mckey -m 239.77.0.1 -b 192.0.2.1 -s -o -S 1024    join as a sender only`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := cmd.Flags()
	fs.StringVarP(&f.Group, "group", "m", "", "multicast `address`")
	fs.StringVarP(&f.MGID, "mgid", "M", "", "unmapped multicast `GID` in place of -m, with -b; does not exist with RoCE")
	fs.BoolVarP(&f.Sender, "sender", "s", false, "send; without it receive")
	fs.StringVarP(&f.Bind, "bind", "b", "", "own `address` (default: that of the route to the group)")
	registerLoad(cmd, &f.Load, "queue pairs")
	fs.Uint16VarP(&f.number, "port-space-number", "p", uint16(rdmacm.UDP), "port space, a `number`: 0x111 for UDP; 0x2, IPoIB, does not exist with RoCE")
	fs.BoolVarP(&f.SendOnly, "send-only", "o", false, "join as a member that only sends")
	fs.BoolVarP(&f.NoLoop, "no-loopback", "l", false, "leave out what this side sends itself; not supported, nor is it by Linux's Soft-RoCE")
	fs.DurationVar(&f.Pause, "pause", 3*time.Second, "time between joining and sending")
	return cmd
}

// mckeyFlags are the flags of mckey.
type mckeyFlags struct {
	connectFlags
	mckey.Options
	number uint16
}

func (f *mckeyFlags) run(cmd *cobra.Command) (err error) {
	if err := f.Check(); err != nil {
		return &usageError{err}
	}
	if f.Space, err = datagramSpace(f.number); err != nil {
		return err
	}
	return f.connectFlags.run(cmd, func(opener adapter.Opener) error {
		return mckey.Side{Options: f.Options, Opener: opener, Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr()}.Run(cmd.Context())
	})
}
