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
)

const usage = `check runs Debian's RDMA programs on our libibverbs.so.1 and says what became of each.

  go run ./capi/check                    all, about 15 minutes
  go run ./capi/check -run 'pingpong'    those whose names match
  go run ./capi/check -list              their names
  go run ./capi/check -root trixie       the core, from another suite of Debian: bookworm, trixie or sid
  go run ./capi/check -write             all, and write docs/programs.md and the list of skipped tests anew

Packages of Debian's that are missing it installs if it is root.

It ends with status 1 if a program failed, and 2 if it cannot run any.

`

func main() {
	list := flag.Bool("list", false, "print the names of the programs")
	run := flag.String("run", "", "run only programs whose names match this regular `expression`")
	write := flag.Bool("write", false, "write docs/programs.md and capi/check/skips.txt")
	suite := flag.String("root", "", "run the core of the programs of this Debian `suite`, in a root directory that is made of its packages")
	at := flag.String("at", "", "`directory` of that root")
	inside := flag.Bool("inside", false, "this is the process in the namespace")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	want, err := regexp.Compile(*run)
	if *suite != "" && !slices.Contains(rootSuites, *suite) {
		fmt.Fprintf(os.Stderr, "check: -root %s: want one of %s\n", *suite, strings.Join(rootSuites, ", "))
		os.Exit(2)
	}
	if err != nil || flag.NArg() > 0 || *write && *run != "" && *suite == "" {
		fmt.Fprintln(os.Stderr, "check: -run wants a regular expression, -write all programs or -root; there are no arguments:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c := &checker{want: want, list: *list, write: *write, suite: *suite, root: *at}
	if !*inside && !*list {
		err = begin(ctx, *suite)
	} else {
		err = c.all(ctx)
	}
	var status *exec.ExitError
	switch {
	case errors.As(err, &status) && !*inside:
		os.Exit(status.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(2)
	case c.failed > 0:
		os.Exit(1)
	}
}

// begin gets the programs, and runs them in namespaces.
func begin(ctx context.Context, suite string) error {
	if suite == "" {
		if err := install(ctx); err != nil {
			return err
		}
		return enter(ctx)
	}
	root, err := makeRoot(ctx, suite)
	if err != nil {
		return err
	}
	return enter(ctx, "-at", root)
}

// enter runs this program again in namespaces of its own, with more options: there it is
// root, and outside nobody in particular.
func enter(ctx context.Context, options ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, slices.Concat([]string{"-inside"}, options, os.Args[1:])...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	return cmd.Run()
}

// checker runs what is wanted, and keeps the table.
type checker struct {
	want        *regexp.Regexp
	list, write bool
	suite, root string // of Debian and its root directory, if the host's programs are not wanted
	failed      int
	table       strings.Builder
}

func (c *checker) all(ctx context.Context) error {
	s := &stand{port: 20000}
	if !c.list {
		dir, err := os.MkdirTemp("", "softhca-check-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }() // what is left is in a directory for what is left
		if err := prepare(ctx, dir); err != nil {
			return err
		}
		s.lib = dir
		if c.root != "" {
			leave, err := enterRoot(c.root, dir)
			if err != nil {
				return err
			}
			c.cases(ctx, s)
			return errors.Join(leave(), ctx.Err(), c.page(c.suite))
		}
	}
	c.cases(ctx, s)
	return errors.Join(ctx.Err(), c.page(""))
}

// cases runs those that are wanted.
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
	for _, d := range disks {
		c.one("tgt", d.name(), func() (string, error) { return s.serve(ctx, &d) })
	}
	for _, g := range migrations {
		c.one("qemu-system-x86", g.name(), func() (string, error) { return s.migrate(ctx, &g) })
	}
	for _, both := range brokenPrograms {
		for _, b := range both.variants() {
			c.one(b.section, b.name(), func() (string, error) { return s.runBroken(ctx, &b) })
		}
	}
	var skipped []string
	c.one("python3-pyverbs", "rdma-core's unit tests", func() (line string, err error) {
		line, skipped, err = s.pyverbs(ctx, s.lib)
		if c.write && skipped != nil {
			err = errors.Join(os.WriteFile("capi/check/skips.txt", []byte(strings.Join(skipped, "\n")+"\n"), 0o644))
		}
		return line, err
	})
}

// page writes the page of the host's programs, or of those of another suite.
func (c *checker) page(suite string) error {
	switch {
	case !c.write:
		return nil
	case suite == "":
		return os.WriteFile("docs/programs.md", []byte(head+c.table.String()), 0o644)
	}
	return os.WriteFile("docs/programs-"+suite+".md", fmt.Appendf(nil, rootHead, suite, suite, c.want, &c.table), 0o644)
}

const rootHead = `# Programs of Debian %s on our libibverbs.so.1

As [programs.md](programs.md), for the core of the programs: from the packages of that suite, in a root directory that is made of them, on
libraries that were built on another one. Written by ` + "`go run ./capi/check -root %s -run '%v' -write`" + `.

| package | program | outcome |
|---|---|---|
%s`

const head = `# Programs that run on our libibverbs.so.1

Unmodified, from Debian 12, in a network namespace without RDMA devices, as written by ` + "`go run ./capi/check -write`" + `.
Servers and their clients are two processes, with the entry 0 of the GID table: each pair runs between two addresses, and on one. So do
the ranks of MPI, which reach each other by UCX over our library only. A case fails if its server crashes or ends with an error, also
after its client has its result. Those of UCX, which
reads ` + "`/sys`" + `, and programs without a partner are run by ` + "`softhca run`" + `, and so are those that connect
by rdma_cm. SERVER, CLIENT and DIR stand for the addresses and a directory. DIR/meet is
[a program of ours](../capi/check/ucx/meet.c): what packages have that uses UCX's listeners is an example in source. So is
[DIR/pool](../capi/check/rpma/pool.c), as librpma comes without programs. There is no package of libfabric's fabtests.
The core of the programs also runs from the packages of [Debian 13 (trixie)](programs-trixie.md) and [sid](programs-sid.md).

| package | program | outcome |
|---|---|---|
`

// one runs a program, if it is wanted.
func (c *checker) one(section, name string, run func() (string, error)) {
	switch {
	case !c.want.MatchString(name), c.suite != "" && !inCore(c.suite, section):
		return
	case c.list:
		fmt.Println(name)
		return
	}
	began := time.Now()
	line, err := run()
	if err != nil {
		c.failed++
		line = "FAILED"
		fmt.Printf("%-16s %-60s FAILED\n%v\n", section, name, err)
	} else {
		fmt.Printf("%-16s %-60s %s (%v)\n", section, name, line, time.Since(began).Round(100*time.Millisecond))
	}
	fmt.Fprintf(&c.table, "| %s | `%s` | %s |\n", section, name, line)
}

// prepare builds the libraries, and gives the namespace its addresses, and a place for
// shared memory: librspreload keeps a semaphore there, which one user's processes leave to
// no other's, and which stays taken when its taker is killed.
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
