package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/softhca/softhca/interop/image"
	"github.com/softhca/softhca/interop/netns"
)

// The exit codes.
const (
	exitOK          = 0
	exitFailed      = 1 // a case failed, or the runner itself
	exitUsage       = 2
	exitUnable      = 3 // this machine cannot emulate the guests
	exitInterrupted = 130
)

const usage = `interop proves the adapter against Linux's rdma_rxe: it boots guests from Debian packages under QEMU, runs cases between
rdma-core's programs and ours in both directions, and writes docs/interop.md and docs/interop.json.

Examples:
  go run ./interop                             all pairs of dimensions, both kernels
  go run ./interop -short                      the most telling cases, in a few minutes
  go run ./interop -kernel 6.1 -run '^rping/'  cases by the pattern of their names; writes no report
  go run ./interop -failed                     once more what failed, on a machine that is idle now; corrects the report
  go run ./interop -list                       the cases that would run
  go run ./interop -kernel 6.1 -run '^$' -keep a shell in a guest, and nothing else

It needs Linux on x86-64 with Debian's package tools, QEMU, and root or unprivileged user namespaces with /dev/net/tun. Packages that
are missing it installs as root; others it tells the command. Exit code: 0 if every case passed or differed as expected, 1 if not, 2 for
wrong usage, 3 if this machine cannot emulate the guests, 130 if it was interrupted.

Flags:
`

// options are the flags.
type options struct {
	list, keep, short, all bool
	failed                 bool
	run, kernel            string
	cache, out, json       string
	parallel, logs         bool
	again                  string // flags to repeat a case with
}

func main() {
	if netns.Inside() {
		os.Exit(inside())
	}
	os.Exit(outside(os.Args[1:]))
}

// parse reads the flags.
func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	fs := flag.NewFlagSet("interop", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		_, _ = io.WriteString(stderr, usage) // an error here has no other place to go
		fs.PrintDefaults()
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	fs.BoolVar(&o.list, "list", false, "print the names of the cases and end")
	fs.BoolVar(&o.keep, "keep", false, "in the end open a shell in the guest; with one kernel only")
	fs.BoolVar(&o.short, "short", false, "only the most telling cases")
	fs.BoolVar(&o.all, "all", false, "the full product of all dimensions instead of all pairs")
	fs.BoolVar(&o.failed, "failed", false, "only the cases that failed in docs/interop.json, one at a time; puts their results into the report")
	fs.StringVar(&o.run, "run", "", "only cases whose names match the `regexp`; every cell that does, not only all pairs")
	fs.StringVar(&o.kernel, "kernel", "both", "kernel of the guest: "+strings.Join(image.Kernels(), ", ")+" or both")
	fs.StringVar(&o.cache, "cache", filepath.Join(cache, "softhca", "interop"), "`directory` of packages, guests and what failed cases leave")
	fs.StringVar(&o.out, "o", "", "`file` of the report; default docs/interop.md if all cases of both kernels run, else none")
	fs.StringVar(&o.json, "json", "", "`file` of the results in JSON; default docs/interop.json, likewise")
	fs.BoolVar(&o.parallel, "parallel", true, "with both kernels run their guests side by side")
	fs.BoolVar(&o.logs, "logs", false, "keep captures and logs of the cases that pass, too")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	fs.Visit(func(f *flag.Flag) {
		if f.Name == "cache" {
			o.again = " -cache " + o.cache
		}
	})
	kernels := append(image.Kernels(), "both")
	switch {
	case fs.NArg() > 0:
		err = fmt.Errorf("no argument %q is known", fs.Arg(0))
	case !slices.Contains(kernels, o.kernel):
		err = fmt.Errorf("-kernel %s: want one of %s", o.kernel, strings.Join(kernels, ", "))
	case o.failed && (o.short || o.all || o.run != "" || o.kernel != "both" || o.out != "" || o.json != ""):
		err = errors.New("-failed: want none of -short, -all, -run, -kernel, -o and -json with it")
	case o.short && o.all:
		err = errors.New("-short and -all: want one of them")
	case o.keep && o.kernel == "both":
		err = errors.New("-keep: want a shell in one guest, so say -kernel 6.1 or -kernel 6.12")
	default:
		_, err = regexp.Compile(o.run)
	}
	if err != nil {
		fmt.Fprintf(stderr, "interop: %v\nTry 'go run ./interop -help'.\n", err)
	}
	return o, err
}

// kernels returns the kernel versions that the flags ask for.
func (o *options) kernels() []string {
	if o.kernel == "both" {
		return image.Kernels()
	}
	return []string{o.kernel}
}

// interruptible returns a context that ends at Ctrl-C.
func interruptible() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
}
