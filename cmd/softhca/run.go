package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/launch"
	"github.com/softhca/softhca/internal/environ"
	"github.com/softhca/softhca/internal/eventlog"
	"github.com/softhca/softhca/internal/fault"
	"github.com/softhca/softhca/verbs"
)

// defaultDevice is the default name of the adapter.
const defaultDevice = "softhca0"

// runName is the name of the command.
const runName = "run"

// runExamples are the examples of the command's help.
const runExamples = `  softhca run -- ibv_devinfo -v
  softhca run -- ibv_rc_pingpong -g 0                             a server, and in another terminal its client:
  softhca run -- ibv_rc_pingpong -g 0 127.0.0.1
  softhca run --addr eth0 -- ./my_server                          reachable from other hosts
  softhca run --addr eth0 --addr eth1 -- ibv_devices              two adapters
  softhca run -- mpirun -n 2 softhca run -- ./my_program
  softhca run --fault 'drop p=0.01' --capture x.pcapng -- ./my_server
  softhca run --explain -- ./my_client 192.0.2.7
  softhca run --explain --expect clean --require-packets -- ./my_test
  softhca run --check -- ./my_server
  softhca run --check=advice,fatal --explain -- ./my_client 192.0.2.7
  softhca run --check --report findings.sarif --suppress known.txt -- ./my_test
  softhca run --nasty --check -- ./my_server
  softhca run --nasty=7,without=placement -- ./my_test            the seed of an earlier run, without one behaviour
  softhca run --wire udp -- ./my_server                           for tcpdump -i lo; the client with --wire udp, too
  softhca run --addr 127.0.0.1 -- sh -c 'cat /sys/class/infiniband/softhca0/ports/1/hw_counters/*'`

func newRunCommand(g *globals) *cobra.Command {
	x := &running{}
	cmd := &cobra.Command{
		Use:   runName + " [flags] [--] PROGRAM [ARGUMENT...]",
		Short: "Run an unmodified RDMA program on a software adapter",
		Long: `run runs an unmodified program for RDMA hardware: in C, C++, Python or Rust, over libibverbs, UCX, libfabric or MPI.
The program and its children find the RoCE adapter softhca0 in libibverbs and in /sys/class/infiniband, and no other
adapter of the host. They need no kernel module, no hardware and no privilege.

The adapter uses the address of --addr, otherwise that of SOFTHCA_ADDR, otherwise the first free address from 127.0.0.1
on. Processes of one user share an address, for example the ranks of an MPI program. Repeat --addr to give the program
several adapters, softhca0, softhca1 and so on; in SOFTHCA_ADDR, separate their addresses by semicolons.

--fault and --fault-file inject faults into the adapter, --capture writes every packet, --log-level info logs connections, errors and events,
--device names the adapter. The variables SOFTHCA_FAULTS, SOFTHCA_CAPTURE, SOFTHCA_LOG_LEVEL, SOFTHCA_LOG_FORMAT and SOFTHCA_DEVICE do the same,
and the program's children inherit them.

The libraries are in the directory of this command or in ../lib/softhca; in a source tree, run builds them at first use. run refuses statically linked programs, and programs
that get more rights than you have, such as set-user-ID programs.

On Linux, packets to programs of the same user on this host take shared memory, where tcpdump, explain --live and nftables
do not see them; --wire udp, or SOFTHCA_WIRE=udp, sends them through the loopback interface instead (on both sides).
--capture and --explain see all packets.

--explain follows the packets of the program and its children, reports failed connections at once, and says at the end
what went wrong, and why. It also has what the adapters say: the statuses that the programs got, why exactly a request
was refused or a packet dropped, failed calls, and errors that sent no packet. With --capture it writes the packets of
all adapters to one file. --expect makes the command fail unless the report is as expected, for tests.

--check finds wrong use of the verbs: buffers that change while they are sent, memory that is freed too early, queues that
are too small on hardware, wrong keys, events that are never acknowledged. It reports them with the rule and the lines of
the program when the program has ended. --check=advice also reports legal use that is rarely wanted, and --check=fatal ends
a process at its first error with exit code 86. --report also writes the report to a file, and --suppress hides findings
that you know. The findings are described in docs/checks.md.

--nasty makes the adapter behave as badly as the specification permits, and never makes an operation fail: completions come
late and in bunches, events without completions, bytes of a message in any order. It shows bugs of programs that depend on
what one adapter happens to do. run draws a seed and prints it; --nasty=SEED repeats its choices, --nasty=SEED,without=NAME
leaves a behaviour out. softhca faults --nasty and docs/nasty.md describe them. The variable SOFTHCA_NASTY does the same.

The program replaces this command, or with --explain or --check is its child. The exit code is the program's. It is 127 if
there is no such program, 126 if the program cannot be executed, and 125 if run itself fails: an option or a variable is
wrong, the address, the capture file or the report cannot be used, or the libraries are missing. It is 86 if --check=fatal
ended the program, or if the program ended with 0, and the report of --explain does not match --expect or --require-packets.`,
		Example: runExamples,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("%s needs a program to run", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return x.run(cmd, g, args) },
	}
	cmd.Flags().StringVar(&x.device, "device", "", "`name` of the adapter (default "+defaultDevice+")")
	cmd.Flags().StringArrayVar(&x.addrs, "addr", nil,
		"local `address`, addresses (a,b) or network interface of the adapter; they become its GID table; repeat it for more adapters")
	x.want.flags(cmd)
	x.check.flags(cmd)
	x.nasty.flags(cmd)
	cmd.Flags().SetInterspersed(false) // words after the program's name are its arguments
	return cmd
}

// running is a run of a program.
type running struct {
	device string   // name of the adapter
	addrs  []string // of the adapters
	want   expected
	check  checking
	nasty  nastyOption
}

// run runs a program.
func (x *running) run(cmd *cobra.Command, g *globals, args []string) error {
	if environ.Privileged() {
		return errRunPrivileged
	}
	if err := x.want.check(); err != nil {
		return err
	}
	if x.want.set() && !g.explain {
		return usagef("--expect and --require-packets are about the report of --explain: add --explain")
	}
	if err := x.check.checkOptions(args); err != nil {
		return err
	}
	if strings.HasPrefix(x.device, "-") {
		return usagef("--device %q: want a name; options stand before it", x.device)
	}
	choices, err := x.nasty.config(args)
	if err != nil {
		return err
	}
	o, err := runOptions(cmd, g, args)
	if err != nil {
		return err
	}
	o.Addrs = slices.DeleteFunc(x.addrs, func(a string) bool { return strings.TrimSpace(a) == "" })
	from, name := given("--device", x.device, launch.DeviceEnv)
	o.Device = cmp.Or(name, defaultDevice)
	if err := o.CheckDevice(); err != nil {
		return usagef("%s: %w", from, err)
	}
	x.nasty.start(o, choices)
	err = x.start(cmd, g, o)
	if not := (*launch.Error)(nil); errors.As(err, &not) {
		return &exitError{not.Code, named(cmd, err)}
	}
	return err
}

// start runs the program in place of this process, or as a child if there is something to report when it
// has ended.
func (x *running) start(cmd *cobra.Command, g *globals, o *launch.Options) error {
	if !x.check.set() {
		if g.explain {
			return runExplained(cmd.Context(), cmd, o, g.capture, &x.want)
		}
		return o.Run(cmd.Context())
	}
	k, err := x.check.start(o)
	if err != nil {
		return named(cmd, err)
	}
	defer os.RemoveAll(k.dir)
	if g.explain {
		err = runExplained(cmd.Context(), cmd, o, g.capture, &x.want)
	} else {
		err = runBeside(cmd.Context(), o)
	}
	return k.end(cmd.ErrOrStderr(), err)
}

// given returns the value of a setting and its source: the option, or else the variable.
func given(option, value, env string) (from, text string) {
	if value != "" {
		return option, value
	}
	return env, os.Getenv(env)
}

// runOptions returns the options of the flags. It also checks the settings in the
// environment, which the program inherits.
func runOptions(cmd *cobra.Command, g *globals, args []string) (*launch.Options, error) {
	log, err := g.logger(cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	if g.transport != verbs.UDP.String() {
		return nil, usagef("--transport %s: programs run over udp; leave --transport out", g.transport)
	}
	if err := g.checkRunSettings(); err != nil {
		return nil, err
	}
	command, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this command: %w", err)
	}
	o := &launch.Options{
		Program: args, Env: os.Environ(), Command: command,
		Log: log, Say: func(format string, args ...any) { say(cmd.ErrOrStderr(), format, args...) },
	}
	set := func(name, value string) { o.Set = append(o.Set, launch.Var{Name: name, Value: value}) }
	if g.faultSeed != 0 {
		set(verbs.FaultsSeedEnv, strconv.FormatUint(g.faultSeed, 10))
	}
	if g.wire != "" {
		set(verbs.WireEnv, g.wire)
	}
	if g.logLevel != "" {
		set(launch.LogLevelEnv, g.logLevel)
	}
	if g.logFormat != "" {
		set(launch.LogFormatEnv, g.logFormat)
	}
	// Use absolute paths: the program or its children may change their directory.
	faults := g.faults
	if g.faultFile != "" {
		name, err := filepath.Abs(g.faultFile)
		if err != nil {
			return nil, err
		}
		faults = append(faults, "@"+name)
	}
	if len(faults) > 0 {
		set(verbs.FaultsEnv, strings.Join(faults, "\n"))
	}
	if g.capture != "" && !g.explain {
		name, err := filepath.Abs(g.capture)
		if err != nil {
			return nil, err
		}
		set(launch.CaptureEnv, name)
	}
	return o, nil
}

// checkRunSettings returns an error for the first option or variable with which the program's
// adapter could not be opened. The program would not report the reason.
func (g *globals) checkRunSettings() error {
	if len(g.faults) == 0 && g.faultFile == "" { // these flags replace the variable, and are checked already
		rules, files := fault.Split(os.Getenv(verbs.FaultsEnv))
		if err := checkRules(verbs.FaultsEnv, []string{rules}); err != nil {
			return err
		}
		for _, file := range files {
			if err := checkFaultFile(verbs.FaultsEnv, file); err != nil {
				return err
			}
		}
	}
	if _, err := eventlog.Level(os.Getenv(launch.LogLevelEnv)); err != nil && g.logLevel == "" {
		return usagef("%s %w", launch.LogLevelEnv, err)
	}
	if err := eventlog.CheckFormat(os.Getenv(launch.LogFormatEnv)); err != nil && g.logFormat == "" {
		return usagef("%s %w", launch.LogFormatEnv, err)
	}
	if seed := os.Getenv(verbs.FaultsSeedEnv); seed != "" && g.faultSeed == 0 {
		if n, err := strconv.ParseUint(seed, 0, 64); err != nil || n == 0 {
			return usagef("%s %q: want a number of at least 1", verbs.FaultsSeedEnv, seed)
		}
	}
	if wire := os.Getenv(verbs.WireEnv); wire != "" && g.wire == "" && wire != verbs.WireUDP.String() && wire != verbs.WireAuto.String() {
		return usagef("%s %q: want udp or auto", verbs.WireEnv, wire)
	}
	from, name := given("--capture", g.capture, launch.CaptureEnv)
	if name == "" || strings.HasPrefix(name, launch.CaptureSocket) {
		return nil
	}
	return checkCapture(from, strings.ReplaceAll(name, launch.CaptureProcess, strconv.Itoa(os.Getpid())))
}
