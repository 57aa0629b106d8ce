//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/softhca/softhca/internal/libraries"
	"github.com/softhca/softhca/internal/namespace"
)

const usage = `check runs Debian's RDMA programs on our libibverbs.so.1 and reports the outcome of each.

  go run ./capi/check                     all programs of this machine, about 25 minutes
  go run ./capi/check -gate               the few that the gate runs, about half a minute
  go run ./capi/check -run 'pingpong'     the programs whose names match
  go run ./capi/check -list               the names
  go run ./capi/check -root trixie        the core of the programs, from another suite of Debian
  go run ./capi/check -root host,trixie   both
  go run ./capi/check -write              all programs; also writes docs/programs.md
  go run ./capi/check -write -run 'XRC'   these programs; writes only their rows of the page

If packages are missing, check installs them when run as root, and otherwise prints the command that does.

The exit status is 1 if a program failed, and 2 if check cannot run the programs.

`

// host is the name of this machine's own programs among the suites.
const host = "host"

func main() {
	list := flag.Bool("list", false, "print the names of the programs")
	run := flag.String("run", "", "run only programs whose names match this regular `expression`; of a suite, also those that are not in its core")
	inGate := flag.Bool("gate", false, "run only the programs of the gate, on this machine; installs only the packages that they need")
	write := flag.Bool("write", false, "write the page of the programs and the list of skipped unit tests; with -run, only what ran")
	root := flag.String("root", host, "`suites` of Debian, separated by commas: host (this machine), "+strings.Join(rootSuites, ", "))
	at := flag.String("at", "", "`directory` of the root, with -inside")
	inside := flag.Bool("inside", false, "this is the process in the namespace")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	suites := strings.Split(*root, ",")
	if *inGate && *run == "" {
		*run = gateCases()
	}
	want, err := wanted(*run, suites)
	if err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if !*inside && !*list {
		if err = needed(suites, *inGate).Install(ctx, os.Stderr); err == nil {
			err = begin(ctx, suites)
		}
	} else {
		for _, suite := range suites {
			c := &checker{want: want, list: *list, write: *write, suite: suite, root: *at}
			err = errors.Join(err, c.all(ctx))
			for _, name := range c.names {
				fmt.Println(name)
			}
		}
	}
	var status *exec.ExitError
	switch {
	case errors.As(err, &status) && !*inside:
		os.Exit(status.ExitCode())
	case errors.Is(err, errFailed):
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(2)
	}
}

// wanted checks the options and returns the expression of -run.
func wanted(run string, suites []string) (*regexp.Regexp, error) {
	for _, s := range suites {
		if s != host && !slices.Contains(rootSuites, s) {
			return nil, fmt.Errorf("-root %s: want %s or %s", s, host, strings.Join(rootSuites, ", "))
		}
	}
	switch {
	case flag.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q: there are only options", flag.Arg(0))
	case run == "":
		return nil, nil
	}
	want, err := regexp.Compile(run)
	if err != nil {
		return nil, fmt.Errorf("-run: %w", err)
	}
	return want, nil
}

// begin prepares the roots of all suites first, so that missing packages show at once, and then
// runs the suites one after the other. If programs of one suite fail, it still runs the
// others.
func begin(ctx context.Context, suites []string) error {
	options := make([][]string, len(suites))
	for i, suite := range suites {
		options[i] = []string{"-inside", "-root", suite}
		if suite == host {
			continue
		}
		root, err := makeRoot(ctx, suite)
		if err != nil {
			return err
		}
		defer func() { _ = root.Close() }() // it was only read
		options[i] = append(options[i], "-at", root.Name())
	}
	var failed error
	for _, o := range options {
		var status *exec.ExitError
		switch err := enter(ctx, o...); {
		case err == nil:
		case ctx.Err() == nil && errors.As(err, &status) && status.ExitCode() == 1:
			failed = err
		default:
			return err
		}
	}
	return failed
}

// enter runs this program again, with more options, in new namespaces: inside it is root, outside
// it keeps its user.
func enter(ctx context.Context, options ...string) error {
	cmd := namespace.Again(ctx, syscall.CLONE_NEWNET|syscall.CLONE_NEWNS, slices.Concat(os.Args[1:], options)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return namespace.Run(cmd) // a signal makes the inner process kill its programs
}

// errFailed means that at least one program failed.
var errFailed = errors.New("programs failed")

// checker runs the cases of a suite and keeps their table.
type checker struct {
	want        *regexp.Regexp // of the names; nil for all, or for the core of a suite that is not host
	list, write bool
	names       []string // of the cases, with list
	suite       string
	root        string            // the root directory of the suite; empty for host
	rows        map[string]string // rows of the page, by the name of their case
	ran         int
	skipped     []string
	failed      []string
	unitSkips   []string // the unit tests that skipped themselves; nil if they did not run
}

func (c *checker) all(ctx context.Context) error {
	s := &stand{port: 20000, suite: c.suite}
	c.rows = make(map[string]string)
	if c.list {
		c.cases(ctx, s)
		return nil
	}
	dir, err := os.MkdirTemp("", "softhca-check-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // the system removes what remains in /tmp
	if err := prepare(ctx, dir); err != nil {
		return err
	}
	s.lib = dir
	leave := func() error { return nil }
	if c.root != "" {
		if leave, err = enterRoot(c.root, dir); err != nil {
			return err
		}
	}
	c.cases(ctx, s)
	if err := errors.Join(leave(), ctx.Err()); err != nil {
		return err
	}
	return errors.Join(c.page(ctx), c.summary())
}

// summary prints how many cases ran, and returns errFailed if some failed.
func (c *checker) summary() error {
	fmt.Printf("%s: %d cases ran, %d failed, %d skipped\n", c.suite, c.ran, len(c.failed), len(c.skipped))
	for _, name := range c.failed {
		fmt.Println("FAILED:", name)
	}
	if len(c.failed) > 0 {
		return errFailed
	}
	return nil
}

// cases runs the selected cases.
func (c *checker) cases(ctx context.Context, s *stand) {
	for _, p := range alone {
		c.one(p.section, p.name, func() (string, error) { return "ok", s.runAlone(ctx, &p) })
	}
	for _, both := range tests() {
		for _, t := range both.variants() {
			c.one(t.Section, t.Name, func() (string, error) {
				if t.Skip != "" {
					return "skipped: " + t.Skip, nil
				}
				return "ok", s.run(ctx, &t)
			})
		}
	}
	for _, both := range slices.Concat(meetings, overDAPL(), tcp) {
		for _, m := range both.variants() {
			c.one(m.section, m.client, func() (string, error) {
				if m.skip != "" {
					return "skipped: " + m.skip, nil
				}
				return "ok", s.meet(ctx, &m)
			})
		}
	}
	for _, j := range jobs() {
		c.one(j.mpi.section, j.name(), func() (string, error) { return "ok", s.runJob(ctx, &j) })
	}
	for _, addrs := range places {
		c.one("tgt", diskCase+where(addrs), func() (string, error) { return s.serve(ctx, addrs) })
	}
	for _, pinned := range []bool{false, true} {
		for _, addrs := range places {
			g := migration{addrs, pinned}
			c.one("qemu-system-x86", g.name(), func() (string, error) { return s.migrate(ctx, &g) })
		}
	}
	for _, both := range brokenPrograms {
		for _, b := range both.variants() {
			c.one(b.section, b.name(), func() (string, error) { return s.runBroken(ctx, &b) })
		}
	}
	c.one("python3-pyverbs", "rdma-core's unit tests", func() (line string, err error) {
		line, c.unitSkips, err = s.pyverbs(ctx, c.write)
		return line, err
	})
}

// one runs a case, if it is selected.
func (c *checker) one(section, name string, run func() (string, error)) {
	switch {
	case !c.wants(section, name):
		return
	case c.list:
		c.names = append(c.names, name)
		return
	}
	began := time.Now()
	line := c.absent(section)
	var err error
	if line == "" {
		line, err = run()
	}
	c.ran++
	switch {
	case err != nil:
		c.failed = append(c.failed, name)
		line = "FAILED"
		fmt.Printf("%-16s %-60s FAILED\n%v\n", section, name, err)
	case strings.HasPrefix(line, "skipped"):
		c.ran--
		c.skipped = append(c.skipped, name)
		fallthrough
	default:
		fmt.Printf("%-16s %-60s %s (%v)\n", section, name, line, time.Since(began).Round(100*time.Millisecond))
	}
	c.rows[name] = fmt.Sprintf("| %s | `%s` | %s |\n", section, name, line)
}

// prepare builds the libraries, and gives the namespace its addresses and its own /dev/shm:
// librspreload keeps a semaphore there, which other users cannot open, and which a killed
// process leaves locked.
func prepare(ctx context.Context, dir string) error {
	for _, args := range [][]string{
		{"mount", "-t", "tmpfs", "none", "/dev/shm"},
		{"ip", "link", "set", "lo", "up"},
		{"ip", "-6", "addr", "add", addrs6[0] + "/128", "dev", "lo", "nodad"},
		{"ip", "-6", "addr", "add", addrs6[1] + "/128", "dev", "lo", "nodad"},
		{"ip", "link", "add", "out", "type", "veth", "peer", "name", "far"},
		{"ip", "addr", "add", outside[0] + "/24", "dev", "out"},
		{"ip", "addr", "add", outside[1] + "/24", "dev", "out"},
		{"ip", "link", "set", "far", "up"},
		{"ip", "link", "set", "out", "up"},
	} {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	if out, err := exec.CommandContext(ctx, "go", "build", libraries.NoVCS, "-o", filepath.Join(dir, "softhca"), "./cmd/softhca").CombinedOutput(); err != nil {
		return fmt.Errorf("go build ./cmd/softhca: %w: %s", err, out)
	}
	return libraries.Build(ctx, ".", dir, io.Discard)
}
