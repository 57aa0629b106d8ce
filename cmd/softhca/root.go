package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/text"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/eventlog"
	"github.com/softhca/softhca/internal/fault"
	"github.com/softhca/softhca/internal/printable"
	"github.com/softhca/softhca/verbs"
)

// globals are the flags that every command has.
type globals struct {
	addr      string
	capture   string
	explain   bool
	logLevel  string // empty: no events, and the rest from level warn on
	logFormat string
	transport string
	wire      string
	faults    []string
	faultFile string
	faultSeed uint64
	// ownFaults is set by a command that reports the effects of the rules itself.
	ownFaults bool
}

// newRootCommand returns the whole command tree.
func newRootCommand() *cobra.Command {
	g := &globals{transport: verbs.UDP.String()}
	root := &cobra.Command{
		Use:   "softhca",
		Short: "A software RDMA adapter that speaks RoCEv2 over UDP",
		Long: `softhca is a software RDMA adapter. It speaks RoCEv2 on UDP port 4791, in user space: no kernel module, no root,
no RDMA hardware.`,
		Example: `  softhca run -- ibv_devinfo -v           run an unmodified RDMA program
  softhca demo                            see two adapters talk
  softhca devices                         list the adapters of this host
  softhca perf write --local              measure bandwidth; --latency for latency, perf cm for connections
  softhca decode capture.pcapng           print the captured packets`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		SuggestionsMinimumDistance: 2,
	}
	f := root.PersistentFlags()
	f.StringVar(&g.addr, "addr", "", "local `address`, addresses (a,b) or network interface of the adapter; they become its GID table")
	f.StringVar(&g.capture, "capture", "", "write every packet of the adapter to this `file.pcapng`")
	f.BoolVar(&g.explain, "explain", false, "follow every packet of the adapter: report failed connections at once and, at the end, what went wrong and why")
	addChoice(f, &g.logLevel, "log-level", "log what happens to standard error, from this `level` on: debug (every packet), info (connections, states, retries, drops), warn (failures) or error; the default logs only trouble of the adapter itself", "debug", "info", "warn", "error")
	addChoice(f, &g.logFormat, "log-format", "`format` of the log: text, the default, or json, one object on each line; without --log-level it logs failures", eventlog.Text, eventlog.JSON)
	addChoice(f, &g.transport, "transport", "`kind`: udp (a socket), or raw (whole IP packets; Linux, privileged)", verbs.UDP.String(), verbs.Raw.String())
	addChoice(f, &g.wire, "wire", "how packets reach adapters of this user on this host: `kind` auto (shared memory where possible; Linux), or udp, which tcpdump sees; the default is SOFTHCA_WIRE, or auto", verbs.WireUDP.String(), verbs.WireAuto.String())
	f.StringArrayVar(&g.faults, "fault", nil, "inject faults by this `rule`, such as 'drop nth=100'; may be repeated (see softhca faults)")
	f.StringVar(&g.faultFile, "fault-file", "", "read more rules from this `file`")
	f.Uint64Var(&g.faultSeed, "fault-seed", 0, "`seed` of the rules' random choices; 0 draws one")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := cmd.ValidateFlagGroups(); err != nil { // cobra's own check would not return a usageError
			return groupError(err)
		}
		if err := refuseIgnored(cmd); err != nil {
			return err
		}
		if err := checkGiven(cmd); err != nil {
			return err
		}
		return g.checkFaults()
	}
	setHelp(root)
	root.SetFlagErrorFunc(flagError)
	root.Version = newVersion().String()
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddCommand(
		newDemoCommand(g), newDevicesCommand(g), newStatesCommand(), newCMStatesCommand(), newPerfCommand(g),
		newDecodeCommand(), newExplainCommand(), newSimCommand(), newFaultsCommand(g), newJudgeCommand(g), newRunCommand(g), newExploreCommand(), newExploreJobCommand(),
		newBrokerCommand(g), newPlayCommand(), newTopCommand(), newMetricsCommand(), newManCommand(), newVersionCommand(),
	)
	root.SetHelpCommand(newHelpCommand())
	completeValues(root)
	return root
}

// named returns an error with the name of the command in front, unless it is a
// usageError, which names its flag.
func named(cmd *cobra.Command, err error) error {
	if err == nil || errors.As(err, new(*usageError)) {
		return err
	}
	return fmt.Errorf("%s: %w", cmd.Name(), err)
}

// noArgs refuses arguments that are not flags.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no argument %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// maxArgs allows up to n arguments that are not flags.
func maxArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return usagef("%s takes at most %s; %q is too many", cmd.CommandPath(), text.Count(n, "argument", "arguments"), args[n])
		}
		return nil
	}
}

// refuseZero returns a usageError for the first of some flags with the value 0,
// which the program would treat as not given.
func refuseZero(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "0" {
			return usagef("--%s 0: want 1 or more", name)
		}
	}
	return nil
}

// logger returns a logger with the level of --log-level and the format of --log-format.
func (g *globals) logger(w io.Writer) (*slog.Logger, error) {
	level, err := eventlog.Level(g.logLevel)
	if err != nil {
		return nil, usagef("--log-level %w", err)
	}
	log, err := eventlog.NewLogger(w, g.logFormat, &slog.HandlerOptions{Level: level})
	if err != nil {
		return nil, usagef("--log-format %w", err)
	}
	return log, nil
}

// config returns the configuration from the flags, without the capture.
func (g *globals) config(log *slog.Logger) verbs.Config {
	c := verbs.Config{Addr: g.addr, Faults: verbs.Faults{Rules: strings.Join(g.faults, "\n"), File: g.faultFile, Seed: g.faultSeed}}
	if g.transport == verbs.Raw.String() {
		c.Transport = verbs.Raw
	}
	switch g.wire {
	case verbs.WireUDP.String():
		c.Wire = verbs.WireUDP
	case verbs.WireAuto.String():
		c.Wire = verbs.WireAuto
	}
	if g.logLevel != "" || g.logFormat != "" {
		c.Log = log
	}
	return c
}

// checkFaults returns a usageError for the first mistake in the rules of the
// common flags. It runs before a command opens or starts anything.
func (g *globals) checkFaults() error {
	if err := checkRules("--fault", g.faults); err != nil {
		return err
	}
	return checkFaultFile("--fault-file", g.faultFile)
}

// checkFaultFile returns an error if a file of rules cannot be read or has a wrong rule. An
// empty name means no file. from is the option or variable that names the file.
func checkFaultFile(from, name string) error {
	if name == "" {
		return nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("%s %s: %w: name a file with a rule on each line", from, name, cause(err))
	}
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		return usagef("%s %s: want text with a rule on each line", from, name)
	}
	return checkRules(name, []string{string(text)})
}

// cause returns why a file cannot be used, without its name.
func cause(err error) error {
	if where := (*fs.PathError)(nil); errors.As(err, &where) {
		return where.Err
	}
	return err
}

// checkRules returns a usageError for the first mistake in rules.
func checkRules(from string, rules []string) error {
	for _, rule := range rules {
		all, err := fault.Parse(rule)
		if err != nil {
			return usagef("%s: %w", from, err)
		}
		for i := range all {
			if name := all[i].Process(); name != "" && os.Getenv(device.SitesEnv) == "" {
				return usagef("%s: process=%s: only softhca explore gives processes names; use its --replay", from, name)
			}
		}
	}
	return nil
}

// open applies the tweaks to the configuration from the flags and opens the
// adapter. The caller calls closer once: it closes the adapter and its capture
// file, and returns their errors.
func (g *globals) open(stderr io.Writer, tweaks ...func(*verbs.Config)) (hca *verbs.Context, closer func() error, err error) {
	log, err := g.logger(stderr)
	if err != nil {
		return nil, nil, err
	}
	cfg := g.config(log)
	for _, tweak := range tweaks {
		tweak(&cfg)
	}
	file := func() error { return nil }
	if g.capture != "" {
		if cfg.Capture, file, err = createCapture(g.capture); err != nil {
			return nil, nil, err
		}
	}
	told, lost := func() error { return nil }, func() {}
	if g.explain {
		l := explainLive(&newsroom{w: stderr})
		told, lost = func() error { return tellLive(stderr, l.end()) }, func() { l.end() }
		if cfg.Capture == nil {
			cfg.Capture = l
		} else {
			cfg.Capture = io.MultiWriter(cfg.Capture, l)
		}
	}
	hca, err = verbs.Open(cfg)
	if err != nil {
		lost()
		return nil, nil, errors.Join(err, file())
	}
	if seed := hca.FaultSeed(); seed != 0 && !g.ownFaults {
		say(stderr, "faults at adapter %v: %s, --fault-seed %d", hca.QueryGID(0).Addr(), text.Count(len(hca.FaultStats()), "rule", "rules"), seed)
	}
	return hca, func() error {
		logCounters(log, hca)
		for _, s := range hca.FaultStats() {
			if !g.ownFaults {
				say(stderr, "fault %q acted %s", s.Rule, text.Count(s.Applied, "time", "times"))
			}
		}
		if g.explain {
			tellNear(stderr, hca)
		}
		return errors.Join(hca.Close(), file(), told())
	}, nil
}

// printResult prints a result: as one JSON object, or as text.
func printResult(w io.Writer, asJSON bool, result fmt.Stringer) error {
	if asJSON {
		return json.NewEncoder(w).Encode(result)
	}
	_, err := fmt.Fprintln(w, result)
	return err
}

// say writes text to standard error, each argument on one line without control characters.
// It ignores write errors.
func say(stderr io.Writer, format string, args ...any) {
	lines := make([]any, len(args))
	for i, arg := range args {
		lines[i] = oneLine{arg}
	}
	_, _ = fmt.Fprintf(stderr, format+"\n", lines...)
}

// oneLine formats a value with any verb and escapes what is not printable.
type oneLine struct{ value any }

// Format implements fmt.Formatter.
func (o oneLine) Format(s fmt.State, verb rune) {
	_, _ = io.WriteString(s, printable.Line(fmt.Sprintf(fmt.FormatString(s, verb), o.value), 0))
}

// logCounters logs the counters of an adapter that are not zero.
func logCounters(log *slog.Logger, hca *verbs.Context) {
	counters, err := hca.Counters()
	if err != nil {
		log.Warn("no counters", "error", err)
		return
	}
	var list []any
	for _, c := range counters {
		if c.Value != 0 {
			list = append(list, c.Name, c.Value)
		}
	}
	log.Info("counters", list...)
}

// createCapture opens a capture file for writing; done flushes and closes it.
func createCapture(name string) (w io.Writer, done func() error, err error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, nil, captureError("--capture", name, err)
	}
	b := bufio.NewWriterSize(f, 1<<20)
	return b, func() error { return errors.Join(b.Flush(), f.Close()) }, nil
}

// captureError returns the error for a capture file that cannot be written. from is the option
// or variable that names the file.
func captureError(from, name string, err error) error {
	return fmt.Errorf("%s %s: %w: name a file that you may write, in a directory that exists", from, name, cause(err))
}

// checkCapture returns an error if a capture file cannot be written. It neither creates nor
// removes a file, and does not wait for the reader of a pipe.
func checkCapture(from, name string) error {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = creatable(name)
	case err == nil && (info.Mode().IsRegular() || info.IsDir()):
		var f *os.File
		if f, err = os.OpenFile(name, os.O_WRONLY, 0); err == nil {
			err = f.Close()
		}
	}
	if err != nil {
		return captureError(from, name, err)
	}
	return nil
}

// maxLinks bounds symbolic links to symbolic links, as the kernel does.
const maxLinks = 40

// creatable returns an error if a file that does not exist, or the target of a symbolic
// link that does not exist, cannot be created.
func creatable(name string) error {
	for range maxLinks {
		dir, _ := filepath.Split(name) // unlike Dir, Split keeps ".." for the kernel to resolve
		target, err := os.Readlink(name)
		if err != nil {
			return writableDir(dir + ".")
		}
		if name = target; !filepath.IsAbs(target) {
			name = dir + target
		}
	}
	return fmt.Errorf("too many symbolic links: %w", fs.ErrInvalid)
}
