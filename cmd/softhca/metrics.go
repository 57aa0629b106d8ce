package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/metrics"
	"github.com/softhca/softhca/cmd/softhca/internal/text"
)

// The defaults of softhca metrics.
const (
	defaultListen   = "127.0.0.1:9410"
	defaultInterval = 15 * time.Second
)

// exporting are the options of softhca metrics.
type exporting struct {
	listen, dir            string
	interval               time.Duration
	once, nodeNames, perQP bool
	qps                    int
}

func newMetricsCommand() *cobra.Command {
	var o exporting
	cmd := &cobra.Command{
		Use:   "metrics",
		Short: "Export the counters of all adapters to Prometheus",
		Long: `metrics serves the counters, objects and latencies of the adapters on this host to Prometheus, until it is interrupted. It
sees the adapters of this user, and as root those of all users. It opens no adapter and
does not disturb running processes. Linux only.

It listens on 127.0.0.1:9410, which only this host reaches. --listen :9410 opens it to the network: everybody who
reaches the port can then read the names of the processes, their PIDs and their peers' addresses; there is no password
and no TLS.

/metrics has the names softhca_*. The names of node_exporter, node_infiniband_*, come with --node-names, and always with
--textfile: node_exporter exports the same names for hardware. docs/metrics.md explains each metric.

--textfile writes softhca.prom into the directory of node_exporter's option --collector.textfile.directory, at each
--interval, and removes it at the end; with --once it writes one file and leaves it. --once alone prints one scrape.

A table that cannot be read is counted in softhca_exporter_read_errors_total; each error is logged once.`,
		Example: `  softhca metrics
  softhca metrics --listen :9410                        open to the network
  softhca metrics --once
  softhca metrics --per-qp --qp-limit 100
  softhca metrics --textfile /var/lib/prometheus/node-exporter
  softhca metrics --once --textfile /var/lib/prometheus/node-exporter     for cron`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(cmd); err != nil {
				return err
			}
			return named(cmd, o.run(cmd))
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", defaultListen, "`address:port` to serve on; without an address, all addresses of this host")
	f.BoolVar(&o.once, "once", false, "print one scrape, or write one file with --textfile, and exit")
	f.StringVar(&o.dir, "textfile", "", "write softhca.prom for node_exporter's textfile collector into this `directory` instead of serving")
	f.DurationVar(&o.interval, "interval", defaultInterval, "`time` between two files of --textfile")
	f.BoolVar(&o.nodeNames, "node-names", false, "also export node_infiniband_*, the names of node_exporter")
	f.BoolVar(&o.perQP, "per-qp", false, "also export series for each queue pair")
	f.IntVar(&o.qps, "qp-limit", metrics.DefaultQPs, "maximum `number` of queue pairs with series; if there are more, the busiest")
	assert(cmd.MarkFlagDirname("textfile"))
	return cmd
}

// check returns a usageError for options without effect and for wrong values.
func (o *exporting) check(cmd *cobra.Command) error {
	if err := refuseZero(cmd, "qp-limit", "interval"); err != nil {
		return err
	}
	if o.qps < 1 {
		return usagef("--qp-limit %d: want 1 or more", o.qps)
	}
	if o.interval < time.Second {
		return usagef("--interval %v: want at least 1s", o.interval)
	}
	var errs []error
	if !o.perQP {
		errs = append(errs, refuseGiven(cmd, "it goes with --per-qp", "qp-limit"))
	}
	if o.dir == "" || o.once {
		errs = append(errs, refuseGiven(cmd, "it goes with --textfile without --once", "interval"))
	}
	if o.dir != "" {
		errs = append(errs, refuseGiven(cmd, "--textfile serves nothing", "listen"), refuseGiven(cmd, "--textfile always has these names", "node-names"))
	}
	if o.once {
		errs = append(errs, refuseGiven(cmd, "--once serves nothing", "listen"))
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// run exports until the command is interrupted, or once.
func (o *exporting) run(cmd *cobra.Command) (err error) {
	if runtime.GOOS != "linux" {
		return errors.New("other processes' adapters can be seen on Linux only")
	}
	stderr := cmd.ErrOrStderr()
	log := func(format string, args ...any) { say(stderr, "metrics: "+format, args...) }
	build := newVersion()
	e := metrics.New(metrics.Config{
		NodeNames: o.nodeNames || o.dir != "", PerQP: o.perQP, QPs: o.qps,
		Build: metrics.Build{Version: build.Version, Revision: build.Revision}, Log: log,
	})
	defer func() { err = errors.Join(err, e.Close()) }()
	switch {
	case o.dir != "" && o.once:
		return metrics.Textfile(e, o.dir)
	case o.dir != "":
		return metrics.Textfiles(cmd.Context(), e, o.dir, o.interval)
	case o.once:
		return metrics.Once(e, cmd.OutOrStdout())
	}
	return o.serve(cmd.Context(), e, log)
}

// serve serves the metrics until ctx ends.
func (o *exporting) serve(ctx context.Context, e *metrics.Exporter, log func(string, ...any)) error {
	h, err := metrics.Handler(e)
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return fmt.Errorf("--listen %s: %w: give an address of this host and a free port", o.listen, text.Bare(err))
	}
	log("http://%v/metrics", l.Addr())
	return metrics.Serve(ctx, l, h, log)
}
