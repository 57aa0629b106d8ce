package main

import (
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/softhca/softhca/cmd/softhca/internal/decode"
	"github.com/softhca/softhca/cmd/softhca/internal/perf"
	"github.com/softhca/softhca/cmd/softhca/internal/top"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/script"
)

// completeValues sets the completion of option values in all commands, of the
// operations of perf, and of the scripts of play.
func completeValues(root *cobra.Command) {
	words := func(list ...string) cobra.CompletionFunc {
		return cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp)
	}
	values := map[string]cobra.CompletionFunc{
		"addr":  completeAddr,
		"alt":   completeAddr,
		"fault": words("drop nth=", "drop p=", "delay 5ms p=", "dup p="),
		"live":  completeInterface,
		"mtu":   words("256", "512", "1024", "2048", "4096"),
		"peer":  completeAddr,
	}
	register := func(cmd *cobra.Command, flags *pflag.FlagSet) {
		flags.VisitAll(func(f *pflag.Flag) {
			if c, ok := f.Value.(choice); ok {
				assert(cmd.RegisterFlagCompletionFunc(f.Name, c.complete))
			} else if complete := values[f.Name]; complete != nil {
				assert(cmd.RegisterFlagCompletionFunc(f.Name, complete))
			}
		})
	}
	register(root, root.PersistentFlags())
	assert(root.MarkPersistentFlagFilename("capture", "pcapng"))
	for _, cmd := range root.Commands() {
		register(cmd, cmd.LocalNonPersistentFlags())
		switch cmd.Name() {
		case "perf":
			cmd.ValidArgsFunction = completeOperation
			assert(cmd.RegisterFlagCompletionFunc("static-rate", words(rateNames()...)))
		case "explain":
			cmd.ValidArgsFunction = completeCapture
			assert(cmd.MarkFlagFilename("html", "html"))
		case "decode":
			cmd.ValidArgsFunction = completeCapture
			assert(cmd.RegisterFlagCompletionFunc("op", words(decode.Words()...)))
		case "play":
			cmd.ValidArgsFunction = completeScript
		case "top":
			assert(cmd.RegisterFlagCompletionFunc("sort", completeColumn))
		case runName:
			cmd.ValidArgsFunction = completeProgram
			assert(cmd.RegisterFlagCompletionFunc("check", words(checkWords()...)))
			assert(cmd.RegisterFlagCompletionFunc("nasty", words(nastyRandom)))
			assert(cmd.MarkFlagFilename("report", "json", "xml", "sarif"))
		}
	}
}

// completeColumn completes the name of a column of the table that top shows.
func completeColumn(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return top.ColumnNames(cmd.Flag("view").Value.String()), cobra.ShellCompDirectiveNoFileComp
}

// assert panics on a bug of completeValues: an option that does not exist, or two
// completions for one.
func assert(err error) {
	if err != nil {
		panic(err)
	}
}

// completeOperation completes the first argument of perf.
func completeOperation(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return perf.OpNames(), cobra.ShellCompDirectiveNoFileComp
}

// rateNames returns the names of the static rates.
func rateNames() (names []string) {
	for r := range ib.Rate(math.MaxUint8) {
		if name := r.String(); !strings.Contains(name, "(") {
			names = append(names, name)
		}
	}
	return names
}

// prepareCompletion prepares the tree of commands for a completion request of a shell. It
// hides options that the command would refuse, and removes the backquotes around value names
// from descriptions. The caller must not use the tree for anything else afterwards.
func prepareCompletion(root *cobra.Command, args []string) {
	if len(args) == 0 || args[0] != cobra.ShellCompRequestCmd && args[0] != cobra.ShellCompNoDescRequestCmd {
		return
	}
	cmd, _, err := root.Find(args[1:])
	if err != nil {
		return // an unknown command completes nothing
	}
	for _, f := range ignored(cmd) {
		f.Hidden = true
	}
	unquote := func(f *pflag.Flag) { _, f.Usage = pflag.UnquoteUsage(f) }
	root.PersistentFlags().VisitAll(unquote)
	cmd.LocalFlags().VisitAll(unquote)
}

// completeProgram completes the program of run as a shell completes a command: with the
// programs in PATH, or with files if the word has a slash. It completes arguments with files.
func completeProgram(_ *cobra.Command, args []string, start string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
	if len(args) > 0 || strings.ContainsRune(start, filepath.Separator) {
		return nil, cobra.ShellCompDirectiveDefault
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		files, err := os.ReadDir(dir)
		if err != nil {
			continue // shells skip unreadable directories too
		}
		for _, f := range files {
			if !strings.HasPrefix(f.Name(), start) {
				continue
			}
			info, err := os.Stat(filepath.Join(dir, f.Name()))
			if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				names = append(names, f.Name())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), cobra.ShellCompDirectiveDefault
}

// completeCapture completes the capture file of a command that takes one.
func completeCapture(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return []cobra.Completion{"pcap", "pcapng", "pcap.gz", "pcapng.gz"}, cobra.ShellCompDirectiveFilterFileExt
}

// completeScript completes each argument of play with the built-in scripts and with
// files.
func completeScript(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return script.Names(), cobra.ShellCompDirectiveDefault
}

// completeInterface completes the network interfaces that are up.
func completeInterface(*cobra.Command, []string, string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagUp != 0 {
			names = append(names, i.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeAddr completes addresses and network interfaces of this host, and two
// loopback addresses.
func completeAddr(_ *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	list := []cobra.Completion{"127.0.0.1", "127.0.0.2"}
	interfaces, err := net.Interfaces()
	if err != nil {
		return list, cobra.ShellCompDirectiveNoFileComp
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		list = append(list, i.Name)
		addrs, err := i.Addrs()
		if err != nil {
			continue // the interface is gone
		}
		for _, a := range addrs {
			if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLinkLocalUnicast() && !strings.HasPrefix(ip.IP.String(), "127.") {
				list = append(list, ip.IP.String())
			}
		}
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}
