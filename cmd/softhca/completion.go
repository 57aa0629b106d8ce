package main

import (
	"net"
	"strings"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/perf"
)

// completeValues has shells complete values of options, of all commands that
// have them, and the operations of perf.
func completeValues(root *cobra.Command) {
	words := func(list ...string) cobra.CompletionFunc {
		return cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp)
	}
	values := map[string]cobra.CompletionFunc{
		"addr":      completeAddr,
		"log-level": words("debug", "info", "warn", "error"),
		"mtu":       words("256", "512", "1024", "2048", "4096"),
		"transport": words("udp", "raw"),
		"fault":     words("drop nth=", "drop p=", "delay 5ms p=", "dup p="),
	}
	types := map[string]cobra.CompletionFunc{
		"demo":     words("rc", "rd"),
		"perf":     words(perf.TypeNames()...),
		"pingpong": words("rc", "uc", "ud", "srq", "rd"),
		"states":   words("rc", "uc", "ud", "rd", "gsi"),
	}
	for name, complete := range values {
		if root.PersistentFlags().Lookup(name) != nil {
			must(root.RegisterFlagCompletionFunc(name, complete))
		}
	}
	for _, cmd := range root.Commands() {
		for name, complete := range values {
			if cmd.LocalNonPersistentFlags().Lookup(name) != nil {
				must(cmd.RegisterFlagCompletionFunc(name, complete))
			}
		}
		if complete, ok := types[cmd.Name()]; ok {
			must(cmd.RegisterFlagCompletionFunc("type", complete))
		}
		if cmd.Name() == "perf" {
			cmd.ValidArgsFunction = completeOperation
		}
	}
}

// must reports a bug of the tables above: an option that there is not, or two
// ways to complete one.
func must(err error) {
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

// completeAddr completes addresses and network interfaces of this host, and the
// addresses that loopback has.
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
			continue // it is gone
		}
		for _, a := range addrs {
			if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLinkLocalUnicast() && !strings.HasPrefix(ip.IP.String(), "127.") {
				list = append(list, ip.IP.String())
			}
		}
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}
