package main

import (
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/nodes"
)

// nodesFlags are the flags that ucmatose and udaddy have in common.
type nodesFlags struct {
	connectFlags
	host, bind, format, space string
	tos                       uint8
}

func (f *nodesFlags) register(cmd *cobra.Command, l *nodes.Load, nodes string) {
	fs := cmd.Flags()
	fs.StringVarP(&f.host, "server", "s", "", "be the client of the server at this `host`")
	fs.StringVarP(&f.bind, "bind", "b", "", "own `address` (default: server any, client that of the route)")
	fs.StringVarP(&f.format, "format", "f", "name", "what hosts are given by: name, ip or ipv6 (an IP address); gid does not exist with RoCE")
	registerLoad(cmd, l, nodes)
	fs.Uint8VarP(&f.tos, "tos", "t", 0, "client: type of service of all packets, 0 to 255")
	f.connectFlags.register(cmd)
}

// typeOfService returns that of --tos, nil if it is not given.
func (f *nodesFlags) typeOfService(cmd *cobra.Command) *uint8 {
	if cmd.Flags().Changed("tos") {
		return &f.tos
	}
	return nil
}

// check checks the load, and the hosts, as far as they are given, by the format
// that the user asks for. One that is unknown is warned of, as in rdma-core's
// programs.
func (f *nodesFlags) check(cmd *cobra.Command, l *nodes.Load) error {
	if err := l.Check(); err != nil {
		return &usageError{err}
	}
	switch format := strings.ToLower(f.format); {
	case strings.HasPrefix(format, "gid"):
		return usagef("-f gid: RoCE is addressed by IP addresses: name the host by one, with -f ip or without -f")
	case strings.HasPrefix(format, "name"):
	case strings.HasPrefix(format, "ip"):
		for _, h := range []string{f.host, f.bind} {
			if _, err := netip.ParseAddr(h); h != "" && err != nil {
				return usagef("-f %s: host %q is not an IP address", format, h)
			}
		}
	default:
		say(cmd.ErrOrStderr(), "Warning: unknown address format")
	}
	return nil
}

// portSpace returns the index of the first of some names that begins what -P
// asks for; if none does, it warns and returns the last.
func (f *nodesFlags) portSpace(cmd *cobra.Command, names ...string) int {
	for i, name := range names {
		if strings.HasPrefix(strings.ToLower(f.space), name) {
			return i
		}
	}
	say(cmd.ErrOrStderr(), "Warning: unknown port space format")
	return len(names) - 1
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
