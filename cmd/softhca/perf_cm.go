package main

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/connections"
)

// perfCMFlags are the flags of perf cm.
type perfCMFlags struct {
	connectFlags
	connections.Options
	local, asJSON bool
}

func newPerfCMCommand(g *globals) *cobra.Command {
	f := &perfCMFlags{connectFlags: connectFlags{globals: g}}
	cmd := &cobra.Command{
		Use:   "cm [HOST]",
		Short: "Measure the set-up and the end of connections",
		Long: `perf cm makes many connections through the connection manager and prints the time of each step. Without HOST it is the
server, which serves any number of clients until it is interrupted. With HOST it is the client, which takes all
connections through each step before the next one, and leaves failed connections out. The other side may be rdma-core's
cmtime.

With --local both sides are in this process, on 127.0.0.1 and 127.0.0.2, or on --addr and the address after it. --cycles
then takes connections through their whole lives, --window at a time: create, resolve, connect, send a message,
disconnect, destroy. At the end perf cm checks that no ID, queue pair, connection, goroutine or memory is left. It also
measures exchanges of three plain UDP messages of the same size, and prints the ratio.

Messages of the connection manager always take UDP. On Linux, data between adapters of one host takes shared memory, unless
--wire udp is given.`,
		Example: `  softhca perf cm --local --cycles 20000
  softhca perf cm --local --connections 1000 --cycles 2000 --window 1 --json
  softhca perf cm --addr 127.0.0.1                a server, and in another terminal its client:
  softhca perf cm --addr 127.0.0.2 --connections 500 127.0.0.1`,
		Args: maxArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	fs := cmd.Flags()
	fs.IntVar(&f.Connections, "connections", 100, "connections (with --local 500 by default); of very many the server drops some, which the client repeats seconds later")
	fs.Uint16Var(&f.Port, "port", 7471, "`port` of the connection manager at which the server listens")
	fs.BoolVar(&f.local, "local", false, "run both sides in this process")
	fs.IntVar(&f.Cycles, "cycles", 0, "with --local: number of connection lives to run")
	fs.IntVar(&f.Window, "window", 16, "with --local: connections that exist at a time in the cycles")
	fs.BoolVar(&f.Events, "events", false, "with --local: run each side in its own thread, which sleeps until an event, instead of one thread that polls for both")
	fs.BoolVar(&f.asJSON, "json", false, "print the result as one JSON object")
	f.register(cmd)
	return cmd
}

func (f *perfCMFlags) run(cmd *cobra.Command, args []string) error {
	if err := f.Check(); err != nil {
		return &usageError{err}
	}
	if len(args) == 1 {
		f.Host = args[0]
	}
	if err := f.refuseIgnored(cmd); err != nil {
		return err
	}
	opener, err := f.opener(cmd)
	if err != nil {
		return err
	}
	side := connections.Side{Options: f.Options, Opener: opener, Err: cmd.ErrOrStderr()}
	var sum connections.Summary
	switch {
	case f.local:
		sum, err = f.runLocal(cmd, side)
	case f.Host != "":
		sum, err = side.Client(cmd.Context())
	default:
		err = side.Server(cmd.Context())
	}
	if sum.Connections > 0 {
		err = errors.Join(err, printResult(cmd.OutOrStdout(), f.asJSON, sum))
	}
	if err == nil || errors.As(err, new(*usageError)) {
		return err
	}
	return fmt.Errorf("perf cm: %w", err)
}

// refuseIgnored refuses options that have no effect on this side, or without
// another option.
func (f *perfCMFlags) refuseIgnored(cmd *cobra.Command) error {
	switch {
	case f.local && f.Host != "":
		return errLocalHost
	case f.local && f.Cycles == 0:
		return refuseGiven(cmd, "it is about --cycles", "window")
	case f.local:
		return nil
	case f.Host == "":
		err := refuseGiven(cmd, "it is for the client, with HOST", "cm-retries", "cm-timeout", "connections", "json")
		if err != nil {
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
func (f *perfCMFlags) runLocal(cmd *cobra.Command, side connections.Side) (sum connections.Summary, err error) {
	f.addr = cmp.Or(f.addr, perfAddr)
	if !cmd.Flags().Changed("connections") {
		side.Connections = localConnections
	}
	server, err := oneAddr("addr", f.addr)
	if err != nil {
		return sum, err
	}
	// Faults and the capture apply to the client only.
	plain := f.connectFlags
	plain.globals = &globals{logLevel: f.logLevel, logFormat: f.logFormat, transport: f.transport, wire: f.wire}
	l := connections.Local{Side: side}
	if l.ServerOpener, err = plain.opener(cmd); err != nil {
		return sum, err
	}
	l.Host = server.String()
	l.ServerOpener.Addr, l.Opener.Addr = l.Host, server.Next().String()
	return l.Run(cmd.Context())
}
