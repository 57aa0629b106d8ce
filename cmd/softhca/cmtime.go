package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/cmtime"
)

// cmtimeFlags are the flags of cmtime.
type cmtimeFlags struct {
	connectFlags
	cmtime.Options
	resolveMs     int
	local, asJSON bool
}

func newCmtimeCommand(g *globals) *cobra.Command {
	f := &cmtimeFlags{connectFlags: connectFlags{globals: g}}
	cmd := &cobra.Command{
		Use:   "cmtime [-s HOST | --local]",
		Short: "Measure how fast connections are made and ended, as rdma-core's cmtime does",
		Long: `cmtime makes many connections through the connection manager and says how long each step takes. Without -s it is the
server, which serves any number of clients until it is interrupted. With -s it is the client: it takes all connections
through one step after the other, and prints the same table as the Linux program, and the rates that follow from it. The
other side may be the Linux program. A connection that fails is left out of the next steps.

With --local both sides are in this process, on 127.0.0.1 and 127.0.0.2, or on --addr and the address after it. Then
--cycles takes connections through whole lives, --window at a time: create, resolve, connect, send a message, disconnect,
destroy. At the end it checks that none of their IDs, queue pairs, connections, goroutines and memory is left. In the same
run it measures exchanges of three plain UDP messages of the same size, and prints the ratio.`,
		Example: `  softhca cmtime --local --cycles 20000
  softhca cmtime --local -c 1000 --cycles 2000 --window 1 --json
  softhca cmtime --addr eth0                   a server, and on another host its client:
  softhca cmtime -s 192.0.2.7 -c 500`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := cmd.Flags()
	fs.StringVarP(&f.Host, "server", "s", "", "be the client of the server at this `address`")
	fs.StringVarP(&f.Bind, "bind", "b", "", "`address` to bind to; client: its own (default by route)")
	fs.IntVarP(&f.Connections, "connections", "c", 100, "connections (with --local 500 by default); of very many the server drops some, which the client repeats seconds later")
	fs.StringVarP(&f.Port, "port", "p", "7471", "`port` number or service name")
	fs.IntVarP(&f.Retries, "retries", "r", 2, "retries of resolving an address, and of the connections' packets")
	fs.IntVarP(&f.resolveMs, "timeout", "t", 2000, "time for resolving an address or route, in `ms`")
	fs.BoolVar(&f.local, "local", false, "run both sides in this process")
	fs.IntVar(&f.Cycles, "cycles", 0, "with --local: number of connection lives to run")
	fs.IntVar(&f.Window, "window", 16, "with --local: connections that exist at a time in the cycles")
	fs.BoolVar(&f.Events, "events", false, "with --local: run each side in its own thread, which sleeps until an event, instead of one thread that polls for both")
	fs.BoolVar(&f.asJSON, "json", false, "client: print the result as one JSON object")
	f.register(cmd)
	cmd.MarkFlagsMutuallyExclusive("server", "local")
	return cmd
}

func (f *cmtimeFlags) run(cmd *cobra.Command) error {
	f.Timeout = time.Duration(f.resolveMs) * time.Millisecond
	if err := f.Check(); err != nil {
		return &usageError{err}
	}
	if err := f.refuseIgnored(cmd); err != nil {
		return err
	}
	opener, err := f.opener(cmd)
	if err != nil {
		return err
	}
	side := cmtime.Side{Options: f.Options, Opener: opener, Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr()}
	if f.asJSON {
		side.Out = io.Discard
	}
	var sum cmtime.Summary
	switch {
	case f.local:
		sum, err = f.runLocal(cmd, side)
	case f.Host != "":
		sum, err = side.Client(cmd.Context())
	default:
		err = side.Server(cmd.Context())
	}
	if sum.Connections > 0 {
		err = errors.Join(err, f.print(cmd.OutOrStdout(), sum))
	}
	return named(cmd, err)
}

// refuseIgnored refuses options that have no effect on this side, or without
// another option.
func (f *cmtimeFlags) refuseIgnored(cmd *cobra.Command) error {
	switch {
	case f.local && f.Cycles == 0:
		return refuseGiven(cmd, "it is about --cycles", "window")
	case f.local:
		return nil
	case f.Host == "":
		if err := refuseGiven(cmd, "the client, with -s HOST, has the result", "json"); err != nil {
			return err
		}
		if err := f.refuseAtServer(cmd); err != nil {
			return err
		}
	}
	return refuseGiven(cmd, "it needs --local", "cycles", "window", "events")
}

// localConnections is enough for a measurement of some duration, and less than
// the number of requests from one address that a listener queues.
const localConnections = 500

// runLocal runs both sides. The server's adapter is on --addr, the client's on
// the next address.
func (f *cmtimeFlags) runLocal(cmd *cobra.Command, side cmtime.Side) (sum cmtime.Summary, err error) {
	f.addr = cmp.Or(f.addr, "127.0.0.1")
	if !cmd.Flags().Changed("connections") {
		side.Connections = localConnections
	}
	server, err := oneAddr("addr", f.addr)
	if err != nil {
		return sum, err
	}
	// Faults and the capture apply to the client only.
	plain := f.connectFlags
	plain.globals = &globals{logLevel: f.logLevel, transport: f.transport}
	l := cmtime.Local{Side: side}
	if l.ServerOpener, err = plain.opener(cmd); err != nil {
		return sum, err
	}
	l.Host = server.String()
	l.ServerOpener.Addr, l.Opener.Addr = l.Host, server.Next().String()
	return l.Run(cmd.Context())
}

func (f *cmtimeFlags) print(w io.Writer, sum cmtime.Summary) error {
	if f.asJSON {
		return json.NewEncoder(w).Encode(sum)
	}
	if err := sum.Table(w); err != nil {
		return err
	}
	_, err := fmt.Fprint(w, sum)
	return err
}
