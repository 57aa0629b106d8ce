package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/text"
	"github.com/softhca/softhca/cmd/softhca/internal/top"
	"github.com/softhca/softhca/internal/observe"
	"github.com/softhca/softhca/internal/printable"
)

// topFlags are the flags of top.
type topFlags struct {
	once    bool
	asJSON  bool
	noColor bool
	file    string
	options top.Options
}

// The bounds of --interval.
const (
	minInterval = 50 * time.Millisecond
	maxInterval = time.Hour
)

func newTopCommand() *cobra.Command {
	o := &topFlags{options: top.Options{View: top.ViewNames()[0]}}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch adapters, processes and connections",
		Long: `top shows all adapters that programs of this user have open, and refreshes the screen once per interval: connections
with their rates, windows, retransmissions, completion times and errors, adapters with their counters, completion queues,
connections and listeners of the connection manager, and memory regions. It opens no adapter, and does not disturb running
processes. root sees the adapters of all users.

Keys: Tab or 1 to 5 for the views, arrows to select, Enter for all fields of a connection with its histogram of completion
times and the other end next to it, F3 to search, F4 to filter, F6 to sort, Space to pause, F1 for help, q to quit.

A process that died without closing its adapter stays in the list, as dead, with its last state, for a day; --file shows
one table, for example a copy of that of a dead process. --once prints a table as text and ends; with --json, all adapters
with all fields. Text and JSON have rates if you give --interval: top then reads the adapters twice.`,
		Example: `  softhca top
  softhca top --view adapters --interval 5s
  softhca top --filter 'ib_write_bw rts' --sort p99
  softhca top --once --interval 1s
  softhca top --once --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(cmd); err != nil {
				return err
			}
			return named(cmd, o.run(cmd))
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.once, "once", false, "print a table as text, and end")
	f.BoolVar(&o.asJSON, "json", false, "with --once: print a JSON array of all adapters with all fields")
	f.StringVar(&o.file, "file", "", "show the adapter of this table `file` only, for example that of a process that died")
	f.DurationVar(&o.options.Interval, "interval", time.Second, "`time` between two reads; with --once, read twice and print rates")
	addChoice(f, &o.options.View, "view", "`table` to show: connections, adapters, cqs, cm or mrs", top.ViewNames()...)
	f.StringVar(&o.options.Sort, "sort", "", "`column` to sort by, such as sent-gbps, p99 or process; a wrong one lists the columns of the view")
	f.StringVar(&o.options.Filter, "filter", "", "show only rows that have these `words`: part of a name, address, QPN, type or state")
	f.BoolVar(&o.noColor, "no-color", false, "use no colors; so does the variable NO_COLOR")
	return cmd
}

// check refuses wrong flags.
func (o *topFlags) check(cmd *cobra.Command) error {
	if d := o.options.Interval; d < minInterval || d > maxInterval {
		return usagef("--interval %v: want %v to %v", d, minInterval, readable(maxInterval))
	}
	if o.asJSON && !o.once {
		return usagef("--json has no effect here: it needs --once")
	}
	if o.asJSON {
		for _, name := range []string{"view", "sort", "filter"} {
			if cmd.Flags().Changed(name) {
				return usagef("--%s has no effect here: --json prints everything", name)
			}
		}
	}
	columns := top.ColumnNames(o.options.View)
	for _, name := range columns {
		if o.options.Sort == name || o.options.Sort == "" {
			return nil
		}
	}
	return usagef("--sort %q: %s", o.options.Sort, text.Want(o.options.Sort, columns))
}

// run shows the adapters.
func (o *topFlags) run(cmd *cobra.Command) error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("adapters of other processes are visible on Linux only: %w", errors.ErrUnsupported)
	}
	out := cmd.OutOrStdout()
	f, isFile := out.(*os.File)
	if !o.once && !(isFile && isTerminal(f)) {
		return errors.New("standard output is no terminal: use --once to print a table, or --once --json")
	}
	set := observe.NewSet()
	if o.file != "" {
		var err error
		if set, err = observe.Open(o.file); err != nil {
			return fmt.Errorf("--file: %w", err)
		}
	}
	defer func() { _ = set.Close() }() // tables are only read
	o.options.UTF8 = top.UTF8(os.Getenv)
	if o.once {
		return o.print(cmd, out, set)
	}
	o.options.Colors = colored(out) && !o.noColor
	ctx, cancel := hangUp(cmd.Context())
	defer cancel()
	err := top.Run(ctx, set.Read, o.options)
	if exit := (*exitError)(nil); errors.As(context.Cause(ctx), &exit) {
		return exit
	}
	return err
}

// print prints the adapters once.
func (o *topFlags) print(cmd *cobra.Command, out io.Writer, set *observe.Set) error {
	var reads []top.Read
	var missing error
	read := func() {
		all, err := set.Read()
		reads, missing = append(reads, top.Read{Adapters: all, At: time.Now()}), nil
		if err != nil { // it names files of other processes
			missing = errors.New(printable.Line(strings.ReplaceAll(err.Error(), "\n", "; "), 0))
		}
	}
	read()
	if cmd.Flags().Changed("interval") {
		wait := time.NewTimer(o.options.Interval)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-cmd.Context().Done():
			return cmd.Context().Err()
		}
		read()
	}
	if o.asJSON {
		return errors.Join(top.JSON(out, reads), missing)
	}
	if len(reads[len(reads)-1].Adapters) == 0 && missing == nil {
		say(cmd.ErrOrStderr(), "no program of this user has an adapter open")
	}
	return errors.Join(top.Text(out, o.options, reads), missing)
}

// hangUp returns a context that also ends when the terminal is closed, or at SIGQUIT. Its cause is
// then an exitError.
func hangUp(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGQUIT)
	go func() {
		select {
		case s := <-signals:
			cancel(interruption(s))
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}
