package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/demo"
	"github.com/softhca/softhca/verbs"
)

func newDemoCommand(g *globals) *cobra.Command {
	peer := "127.0.0.2"
	measure := time.Second
	apm, asJSON, service := false, false, "rc"
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch two adapters communicate, and an error happen",
		Long: `demo opens two adapters on this host, which communicate over the kernel's UDP. It connects a queue pair of each by
the connection manager, moves data with every operation, provokes an error, uses a memory window whose key dies and an
extended reliable connection (XRC), measures the throughput, and disconnects.
It draws every packet, verifies the data, and takes about two seconds. The exit code is 0 only if all checks succeed.

The packets pass the loopback interface, where tcpdump and softhca explain --live lo see them. With --wire auto, or
SOFTHCA_WIRE=auto, they take shared memory instead, which is the default of other commands on Linux; the drawing is the same.

The first adapter opens on 127.0.0.1 or --addr, the second one on --peer. --capture records the packets of the first
adapter; the measurement is then short, unless you set --measure. --fault acts on the first adapter; if a check fails
then, your fault caused it.`,
		Example: `  softhca demo
  softhca demo --capture demo.pcapng
  softhca demo --explain                         and explain the error from its packets
  softhca demo --addr 127.0.0.3 --peer 127.0.0.4
  softhca demo --wire auto                       through shared memory: compare the throughput
  softhca demo --apm                             a connection survives the loss of its path
  softhca demo --type rd                         two queue pairs share a channel: one waits, the other continues
  softhca demo --fault 'drop op=REP nth=1'       a message of the connection manager is lost and repeated`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			stage := demoStage(cmd, asJSON)
			switch {
			case apm && service == "rd":
				return usagef("--apm works only with RC: leave --type out")
			case (apm || service == "rd") && cmd.Flags().Changed("measure"):
				return usagef("--measure has no effect here: --apm and --type rd measure nothing")
			case apm:
				return runMigrationDemo(cmd, g, peer, stage)
			case service == "rd":
				return runPlay(cmd, g, peer, stage, demo.RunDatagrams)
			}
			if g.capture != "" && !cmd.Flags().Changed("measure") {
				measure = 20 * time.Millisecond // a second would be gigabytes
			}
			stage.Measure = measure
			return runPlay(cmd, g, peer, stage, demo.Run)
		},
	}
	cmd.Flags().StringVar(&peer, "peer", peer, "`address` of the second adapter")
	cmd.Flags().DurationVar(&measure, "measure", measure, "how long to measure the throughput; 0 skips the measurement")
	cmd.Flags().BoolVar(&apm, "apm", false, "show automatic path migration; give two addresses, A,B, each in --addr and --peer")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the checks as one JSON object, without the drawing")
	addChoice(cmd.Flags(), &service, "type", "`service` to show: rc, or rd for reliable datagrams", "rc", "rd")
	return cmd
}

// demoStage returns the output options of the demonstration. With --json it prints only the
// checks.
func demoStage(cmd *cobra.Command, asJSON bool) demo.Options {
	out := cmd.OutOrStdout()
	if asJSON {
		return demo.Options{Out: io.Discard, Summary: new(demo.Summary)}
	}
	return demo.Options{Out: out, Color: colored(out), Width: columns(out)}
}

// runMigrationDemo shows how a connection survives the loss of its path.
func runMigrationDemo(cmd *cobra.Command, g *globals, peer string, stage demo.Options) error {
	if !cmd.Flags().Changed("peer") {
		peer = "127.0.0.2,127.0.0.4"
	}
	addr := cmp.Or(g.addr, "127.0.0.1,127.0.0.3")
	if strings.Count(addr, ",") != 1 || strings.Count(peer, ",") != 1 {
		return usagef("--apm needs two addresses of each side, such as --addr 127.0.0.1,127.0.0.3 --peer 127.0.0.2,127.0.0.4")
	}
	first := *g
	primary, _, _ := strings.Cut(peer, ",")
	first.addr, first.faults = addr, append(slices.Clone(g.faults), demo.PathCut(primary))
	return runPlay(cmd, &first, peer, stage, demo.RunMigration)
}

// demoOpener returns a function that opens an adapter of the demonstration.
func demoOpener(cmd *cobra.Command, g *globals) demo.Open {
	return func(addr string, trace func(*verbs.TraceRecord)) (*verbs.Context, func() error, error) {
		return g.open(cmd.ErrOrStderr(), func(c *verbs.Config) {
			c.Addr, c.Exclusive = addr, true // both adapters are in this process, and must act as two hosts
			if c.Wire == verbs.WireDefault && os.Getenv(verbs.WireEnv) == "" {
				c.Wire = verbs.WireUDP
			}
			c.ProbeAfter = demo.ProbeAfter
			c.Trace = trace
		})
	}
}

// runPlay shows a demonstration between two adapters. Faults, the capture and --explain apply to the
// first.
func runPlay(cmd *cobra.Command, g *globals, peer string, stage demo.Options, play func(context.Context, demo.Options) error) error {
	second := *g
	second.capture, second.explain, second.faults, second.faultFile = "", false, nil, ""
	stage.AddrA, stage.AddrB, stage.OpenA, stage.OpenB = cmp.Or(g.addr, "127.0.0.1"), peer, demoOpener(cmd, g), demoOpener(cmd, &second)
	return endDemo(cmd, &stage, play(cmd.Context(), stage))
}

// endDemo prints the checks if --json is given, and returns the error of the demonstration.
func endDemo(cmd *cobra.Command, stage *demo.Options, err error) error {
	err = demoError(err)
	sum := stage.Summary
	if sum == nil || len(sum.Scenes) == 0 { // no adapter could be opened
		return err
	}
	if sum.Verified = err == nil; err != nil {
		sum.Error = err.Error()
	}
	return errors.Join(err, json.NewEncoder(cmd.OutOrStdout()).Encode(sum))
}

// demoError adds advice to an error about an address that is not available.
func demoError(err error) error {
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("demo: %w\nThe demonstration needs two addresses of this host. On macOS: sudo ifconfig lo0 alias 127.0.0.2 up\n"+
			"Or name two others: softhca demo --addr A --peer B", err)
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("demo: %w\nEach adapter of the demonstration needs a free address. Try: softhca demo --addr 127.0.0.3 --peer 127.0.0.4", err)
	case err != nil:
		return fmt.Errorf("demo: %w", err)
	}
	return nil
}

// columns returns the width of the terminal w, or 0 if w is no terminal.
func columns(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	return terminalColumns(f)
}
