package main

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/nodes"
	"github.com/softhca/softhca/cmd/softhca/internal/ucmatose"
	"github.com/softhca/softhca/rdmacm"
)

func newUcmatoseCommand(g *globals) *cobra.Command {
	f := &ucmatoseFlags{stationFlags: stationFlags{globals: g}}
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
	fs := cmd.Flags()
	fs.StringVarP(&f.Host, "server", "s", "", "be the client of the server at this `host`")
	fs.StringVarP(&f.Bind, "bind", "b", "", "own `address` (default: server any, client that of the route)")
	fs.StringVarP(&f.format, "format", "f", "name", formatUsage)
	fs.StringVarP(&f.space, "port-space", "P", "tcp", "`port space`: tcp or ib")
	registerLoad(cmd, &f.Load, "connections")
	fs.Uint8VarP(&f.tos, "tos", "t", 0, "client: type of service of all packets, 0 to 255")
	fs.StringVarP(&f.Port, "port", "p", "7471", "`port` number or service name")
	fs.BoolVarP(&f.Migrate, "migrate", "m", false, "move the connections to another event channel before they end")
	fs.Uint8VarP(&f.ackTimeout, "ack-timeout", "a", 0, "local ACK timeout of the queue pairs, a `code`: 4.096 µs times two to its power, 0 to 31")
	f.register(cmd)
	return cmd
}

// ucmatoseFlags are the flags of ucmatose.
type ucmatoseFlags struct {
	stationFlags
	ucmatose.Options
	format, space   string
	tos, ackTimeout uint8
}

func (f *ucmatoseFlags) run(cmd *cobra.Command) error {
	if err := f.parse(cmd); err != nil {
		return err
	}
	opener, err := f.opener(cmd)
	if err != nil {
		return err
	}
	side := ucmatose.Side{Options: f.Options, Opener: opener, Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr()}
	if f.Host == "" {
		err = side.Server(cmd.Context())
	} else {
		err = side.Client(cmd.Context())
	}
	if err != nil {
		return fmt.Errorf("ucmatose: %w", err)
	}
	return nil
}

// parse turns the flags into options.
func (f *ucmatoseFlags) parse(cmd *cobra.Command) error {
	if err := f.Check(); err != nil {
		return &usageError{err}
	}
	if err := checkFormat(cmd, f.format, f.Host, f.Bind); err != nil {
		return err
	}
	switch space := strings.ToLower(f.space); {
	case strings.HasPrefix(space, "ib"):
		f.Space = rdmacm.IB
	default:
		say(cmd.ErrOrStderr(), "Warning: unknown port space format")
		fallthrough
	case strings.HasPrefix(space, "tcp"):
		f.Space = rdmacm.TCP
	}
	if cmd.Flags().Changed("tos") {
		f.TOS = &f.tos
	}
	if cmd.Flags().Changed("ack-timeout") {
		if f.ackTimeout > 31 {
			return usagef("--ack-timeout %d: want a code of 5 bits, 0 to 31", f.ackTimeout)
		}
		f.AckTimeout = &f.ackTimeout
	}
	return nil
}

// registerLoad adds the flags of programs that connect several nodes, which are
// what.
func registerLoad(cmd *cobra.Command, l *nodes.Load, what string) {
	fs := cmd.Flags()
	fs.IntVarP(&l.Connections, "connections", "c", 1, what+" at once")
	fs.IntVarP(&l.Count, "count", "C", 10, "messages of each, and in each direction; 0 for none")
	fs.IntVarP(&l.Size, "size", "S", 100, "`bytes` of a message")
	fs.DurationVar(&l.Idle, "idle", 30*time.Second, "give up when nothing happens for so long; 0: never")
}

const formatUsage = "what hosts are given by: name, ip or ipv6 (an IP address); gid does not exist with RoCE"

// checkFormat checks hosts, as far as they are given, by the format that the
// user asks for. One that is unknown is warned of, as in rdma-core's programs.
func checkFormat(cmd *cobra.Command, format string, hosts ...string) error {
	switch format = strings.ToLower(format); {
	case strings.HasPrefix(format, "gid"):
		return usagef("-f gid: RoCE is addressed by IP addresses: name the host by one, with -f ip or without -f")
	case strings.HasPrefix(format, "name"):
	case strings.HasPrefix(format, "ip"):
		for _, h := range hosts {
			if _, err := netip.ParseAddr(h); h != "" && err != nil {
				return usagef("-f %s: host %q is not an IP address", format, h)
			}
		}
	default:
		say(cmd.ErrOrStderr(), "Warning: unknown address format")
	}
	return nil
}
