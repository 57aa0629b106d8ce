package main

import (
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/cmd/softhca/internal/mckey"
	"github.com/softhca/softhca/cmd/softhca/internal/nodes"
	"github.com/softhca/softhca/cmd/softhca/internal/text"
	"github.com/softhca/softhca/cmd/softhca/internal/ucmatose"
	"github.com/softhca/softhca/cmd/softhca/internal/udaddy"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
)

// nodesFlags are the common flags of ucmatose and udaddy.
type nodesFlags struct {
	connectFlags
	format, space string
	tos           uint8
}

func (f *nodesFlags) register(cmd *cobra.Command, o *nodes.Options, nodes string) {
	fs := cmd.Flags()
	fs.StringVarP(&o.Host, "server", "s", "", "be the client of the server at this `host`")
	fs.StringVarP(&o.Bind, "bind", "b", "", "local `address` (default: server any, client by route)")
	fs.StringVarP(&f.format, "format", "f", "name", "how hosts are given: by name, or by IP address (ip or ipv6); gid does not exist with RoCE")
	registerLoad(cmd, &o.Load, nodes)
	fs.Uint8VarP(&f.tos, "tos", "t", 0, "client: type of service of all packets, 0 to 255")
	f.connectFlags.register(cmd)
}

// hostFormats returns the values of --format.
func hostFormats() []string { return []string{"name", "ip", "ipv6"} }

// check completes the options, and checks the load and the given hosts against
// --format. For an unknown format, rdma-core's programs only print a warning.
func (f *nodesFlags) check(cmd *cobra.Command, o *nodes.Options) error {
	if err := o.Check(); err != nil {
		return &usageError{err}
	}
	if o.Host == "" {
		if err := f.refuseAtServer(cmd); err != nil {
			return err
		}
	}
	if cmd.Flags().Changed("tos") {
		o.TOS = &f.tos
	}
	switch format := strings.ToLower(f.format); {
	case strings.HasPrefix(format, "gid"):
		return usagef("-f gid: RoCE is addressed by IP addresses: name the host by one, with -f ip or without -f")
	case strings.HasPrefix(format, "name"):
	case strings.HasPrefix(format, "ip"):
		for _, h := range []string{o.Host, o.Bind} {
			if _, err := netip.ParseAddr(h); h != "" && err != nil {
				return usagef("-f %s: host %q is not an IP address", format, h)
			}
		}
	default:
		return usagef("--format %q: %s", f.format, text.Want(f.format, hostFormats()))
	}
	return nil
}

// portSpace returns the index of the first of the names that is a prefix of the
// value of -P.
func (f *nodesFlags) portSpace(names ...string) (int, error) {
	for i, name := range names {
		if strings.HasPrefix(strings.ToLower(f.space), name) {
			return i, nil
		}
	}
	return 0, usagef("--port-space %q: %s", f.space, text.Want(f.space, names))
}

// registerLoad adds the flags of programs with several nodes; what is the word for
// the nodes in help.
func registerLoad(cmd *cobra.Command, l *nodes.Load, what string) {
	fs := cmd.Flags()
	fs.IntVarP(&l.Connections, "connections", "c", 1, what+" at once")
	fs.IntVarP(&l.Count, "count", "C", 10, "messages of each, per direction; 0 for none")
	fs.IntVarP(&l.Size, "size", "S", 100, "`bytes` of a message")
	fs.DurationVar(&l.Idle, "idle", 30*time.Second, "give up after this time without an event; 0: never")
}

func newUcmatoseCommand(g *globals) *cobra.Command {
	f := &ucmatoseFlags{nodesFlags: nodesFlags{connectFlags: connectFlags{globals: g}}}
	cmd := &cobra.Command{
		Use:   "ucmatose [-s HOST]",
		Short: "Connect many RC queue pairs and send messages, also with rdma-core's ucmatose",
		Long: `ucmatose connects a number of RC queue pairs at once through the connection manager. The server then sends its
messages on each, the client sends as many back, and the server disconnects. Without -s ucmatose is the server, with -s the
client of the server there. Either side may be the Linux program, which has the same options, port, messages and output.

Give both sides the same -c, -C and -S. The server ends when all its connections have ended. A side that waits longer than
--idle for the other gives up, except a server that waits for its first client.`,
		Example: `  softhca ucmatose -b 127.0.0.1                             a server, and in another terminal its client:
  softhca ucmatose -s 127.0.0.1 --addr 127.0.0.2
  softhca ucmatose -c 5 -C 100 -S 4000 --addr eth0          a server for five connections, and its client elsewhere:
  softhca ucmatose -s 192.0.2.7 -c 5 -C 100 -S 4000
  softhca ucmatose -s 192.0.2.7 --fault 'drop op=RTU nth=1' --capture rtu.pcapng`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.register(cmd, &f.Options.Options, "connections")
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
	if err := f.check(cmd, &f.Options.Options); err != nil {
		return err
	}
	space, err := f.portSpace("tcp", "ib")
	if err != nil {
		return err
	}
	f.Space = []rdmacm.PortSpace{rdmacm.TCP, rdmacm.IB}[space]
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

func newUdaddyCommand(g *globals) *cobra.Command {
	f := &udaddyFlags{nodesFlags: nodesFlags{connectFlags: connectFlags{globals: g}}}
	cmd := &cobra.Command{
		Use:   "udaddy [-s HOST]",
		Short: "Find UD queue pairs by SIDR and send datagrams, also with rdma-core's udaddy",
		Long: `udaddy finds a number of UD queue pairs through the connection manager, by SIDR. The client then sends its datagrams to
each, and the server sends as many back. Without -s udaddy is the server, with -s the client of the server there. Either side
may be the Linux program, which has the same options, messages and output, and the same port, always 7174.

Give both sides the same -c, -C and -S. Lost datagrams are not retransmitted: a side that waits longer than --idle gives up,
except a server that waits for its first client. A burst of more than some hundred datagrams may overflow the receiver's
socket buffer.`,
		Example: `  softhca udaddy -b 127.0.0.1                               a server, and in another terminal its client:
  softhca udaddy -s 127.0.0.1 --addr 127.0.0.2
  softhca udaddy -c 3 -S 1024 --addr eth0                   a server for three connections, and its client elsewhere:
  softhca udaddy -s 192.0.2.7 -c 3 -S 1024
  softhca udaddy -s 192.0.2.7 --fault 'drop op=SIDR_REP nth=1'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.register(cmd, &f.Options, "queue pairs")
	fs := cmd.Flags()
	fs.StringVarP(&f.space, "port-space", "P", "udp", "`port space`: udp; ipoib does not exist with RoCE")
	fs.Uint16VarP(&f.number, "port-space-number", "p", uint16(rdmacm.UDP), "the same as a `number`: 0x111 is UDP; 0x2, IPoIB, does not exist with RoCE")
	fs.Lookup("port-space-number").DefValue = portSpaceNumber
	cmd.MarkFlagsMutuallyExclusive("port-space", "port-space-number")
	return cmd
}

// udaddyFlags are the flags of udaddy.
type udaddyFlags struct {
	nodesFlags
	udaddy.Options
	number uint16
}

func (f *udaddyFlags) run(cmd *cobra.Command) error {
	if err := f.check(cmd, &f.Options); err != nil {
		return err
	}
	space, err := f.portSpace("udp", "ipoib")
	if err != nil {
		return err
	}
	f.Space = rdmacm.IPoIB
	if space == 0 {
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

func newMckeyCommand(g *globals) *cobra.Command {
	// mckey sends no message of the connection manager, so it has no flags for them.
	f := &mckeyFlags{connectFlags: connectFlags{globals: g, timeout: ib.AckTimeout(cmTimeout), retries: cmRetries}}
	cmd := &cobra.Command{
		Use:   "mckey -m GROUP [-s]",
		Short: "Send and receive multicast datagrams, also with rdma-core's mckey",
		Long: `mckey joins a number of UD queue pairs to a multicast group through the connection manager. With -s each queue pair then
sends its datagrams to the group; without -s each receives as many, from any sender. Either side may be the Linux program
(which has only IPv4 here), which has the same options, messages and output. There may be several senders and receivers.

All sides wait for --pause between joining and sending: the receivers must have joined before the first datagram is sent. Lost
datagrams are not retransmitted. A receiver waits for its first datagram without limit; after that it gives up if none
arrives for --idle.

The adapter is on --addr, else on -b, else on the source address of the route to the group.`,
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
	fs.StringVarP(&f.Bind, "bind", "b", "", "local `address` (default: by route to the group)")
	registerLoad(cmd, &f.Load, "queue pairs")
	fs.Uint16VarP(&f.number, "port-space-number", "p", uint16(rdmacm.UDP), "port space, a `number`: 0x111 for UDP; 0x2, IPoIB, does not exist with RoCE")
	fs.Lookup("port-space-number").DefValue = portSpaceNumber
	fs.BoolVarP(&f.SendOnly, "send-only", "o", false, "join as a send-only member")
	fs.BoolVarP(&f.NoLoop, "no-loopback", "l", false, "do not receive this side's own datagrams; not supported, nor is it by Linux's Soft-RoCE")
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
