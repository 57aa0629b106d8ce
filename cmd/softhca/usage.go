package main

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/softhca/softhca/cmd/softhca/internal/text"
)

// flagError converts an error of the option parser to a usageError that says which
// option, which value was given, and which values are valid.
func flagError(cmd *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	var unknown *pflag.NotExistError
	if !cmd.HasParent() {
		// The option may be one of a command that does not exist.
		if err := noCommand(cmd, cmd.Flags().Args()); err != nil {
			return err
		}
	}
	switch {
	case errors.As(err, &unknown):
		if letters := unknown.GetSpecifiedShortnames(); letters != "" {
			return usagef("%s has no option -%s", cmd.CommandPath(), unknown.GetSpecifiedName())
		}
		name := unknown.GetSpecifiedName()
		return usagef("%s has no option --%s%s", cmd.CommandPath(), name, text.DidYouMean(name, "--", optionNames(cmd)))
	case errors.As(err, &value):
		f := value.GetFlag()
		if c, ok := f.Value.(choice); ok {
			return usagef("--%s %q: %s", f.Name, value.GetValue(), c.want(value.GetValue()))
		}
		if want := wanted(f.Value.Type(), errors.Is(err, strconv.ErrRange)); want != "" {
			return usagef("--%s %q: want %s", f.Name, value.GetValue(), want)
		}
		return usagef("--%s: %w", f.Name, errors.Unwrap(err))
	case errors.As(err, &missing):
		kind, about := pflag.UnquoteUsage(missing.GetFlag())
		return usagef("--%s needs a value: %s", missing.GetFlag().Name, strings.TrimPrefix(about, kind+": "))
	}
	return &usageError{err}
}

// optionNames returns the options that a command has.
func optionNames(cmd *cobra.Command) (names []string) {
	refused := ignored(cmd)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && !slices.Contains(refused, f) {
			names = append(names, f.Name)
		}
	})
	return names
}

// wanted describes the valid values of an option type of the parser. It returns ""
// for our own types, whose errors have the description. far reports that the value
// is a number outside the type's range.
func wanted(kind string, far bool) string {
	bits := map[string]int{"uint8": 8, "uint16": 16, "uint32": 32}[kind]
	switch {
	case bits != 0:
		return fmt.Sprintf("a number from 0 to %d", uint64(math.MaxUint64)>>(64-bits))
	case kind == "int" && far:
		return fmt.Sprintf("a number from %d to %d", math.MinInt, math.MaxInt)
	case kind == "uint64" && far:
		return fmt.Sprintf("a number from 0 to %d", uint64(math.MaxUint64))
	case kind == "int":
		return "a number"
	case kind == "uint64" || kind == "uint":
		return "a number that is not negative"
	case kind == "float64":
		return "a number such as 0.01"
	case kind == "bool":
		return "true or false"
	case kind == "intSlice":
		return "numbers with commas between them, such as 3,17"
	case kind == "duration":
		return "a time with its unit, such as 20ms, 5s or 1m30s"
	default:
		return ""
	}
}

// groupError converts cobra's error about options, of which one must be given or which
// exclude each other, to a usageError.
func groupError(err error) error {
	options := regexp.MustCompile(`\[([a-z -]+)\]`).FindAllStringSubmatch(err.Error(), 2)
	switch {
	case len(options) == 1:
		return usagef("want one of %s", dashed(options[0][1]))
	case len(options) == 2:
		return usagef("%s exclude each other", dashed(options[1][1]))
	}
	return &usageError{err}
}

// dashed returns a list of option names, separated by blanks, as users write them.
func dashed(names string) string {
	all := strings.Fields(names)
	last := len(all) - 1
	for i := range all {
		all[i] = "--" + all[i]
	}
	if last == 0 {
		return all[0]
	}
	return strings.Join(all[:last], ", ") + " and " + all[last]
}

// runCore says how to run a program of rdma-core.
const runCore = "use rdma-core's own program, of Debian's package rdmacm-utils: softhca run --addr ADDRESS -- "

// replaced says for commands that this program once had what to run instead.
var replaced = map[string]string{
	"mckey": runCore + "mckey ...", "rping": runCore + "rping ...", "ucmatose": runCore + "ucmatose ...", "udaddy": runCore + "udaddy ...",
	"rdma-client": runCore + "rdma_client ...", "rdma_client": runCore + "rdma_client ...",
	"rdma-server": runCore + "rdma_server ...", "rdma_server": runCore + "rdma_server ...",
	"cmtime":   "it is now softhca perf cm; rdma-core's own program runs as softhca run --addr ADDRESS -- cmtime ...",
	"pingpong": "it is now softhca perf send --latency; rdma-core's own programs run as softhca run --addr ADDRESS -- ibv_rc_pingpong ...",
}

// refuseReplaced refuses a command that was replaced, whatever its options are.
func refuseReplaced(args []string) error {
	if len(args) == 0 || replaced[args[0]] == "" {
		return nil
	}
	return usagef("the command %q was removed; %s", args[0], replaced[args[0]])
}

// noCommand refuses a word that is no command, and suggests similar commands.
func noCommand(root *cobra.Command, args []string) error {
	if err := refuseReplaced(args); err != nil || len(args) == 0 {
		return err
	}
	like := root.SuggestionsFor(args[0])
	for i := range like {
		like[i] = strconv.Quote(like[i])
	}
	if len(like) == 0 {
		return usagef("there is no command %q", args[0])
	}
	return usagef("there is no command %q; did you mean %s?", args[0], strings.Join(like, " or "))
}

// oneAddr returns the IP address that an option names.
func oneAddr(flag, value string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(value)
	if err != nil {
		return addr, usagef("--%s %q: want one IP address, such as 127.0.0.3", flag, value)
	}
	return addr, nil
}

// readable rounds a time to three digits; the steps of the protocol's times have more.
func readable(d time.Duration) string {
	step := time.Duration(1)
	for d/step >= 1000 {
		step *= 10
	}
	return d.Round(step).String()
}
