package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/softhca/softhca/interop/guest"
	"github.com/softhca/softhca/interop/image"
	"github.com/softhca/softhca/interop/netns"
	"github.com/softhca/softhca/interop/report"
	"github.com/softhca/softhca/interop/suite"
)

// outside prepares guests, has children run the cases, and reports.
func outside(args []string) int {
	o, err := parse(args, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage
	}
	ctx, stop := interruptible()
	defer stop()
	ok, err := o.do(ctx)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "interop: interrupted")
		return exitInterrupted
	case errors.Is(err, errUnable):
		fmt.Fprintln(os.Stderr, "interop:", err)
		return exitUnable
	case err != nil:
		fmt.Fprintln(os.Stderr, "interop:", err)
		return exitFailed
	case !ok:
		return exitFailed
	}
	return exitOK
}

// do carries out the flags. It reports whether all cases passed.
func (o *options) do(ctx context.Context) (ok bool, err error) {
	var last *report.Report // with -failed
	if o.failed {
		if last, err = report.Read(jsonFile); err != nil {
			return false, err
		}
		if o.run = last.Failed(); o.run == "" {
			return true, nil
		}
		o.parallel = false
	}
	whole := order{Kernels: o.kernels(), All: o.all, Short: o.short, Run: o.run, Keep: o.keep, Logs: o.logs}
	cases, err := whole.cases()
	if err != nil {
		return false, err
	}
	if o.list {
		for _, c := range cases {
			fmt.Println(c.ID())
		}
		return true, nil
	}
	if len(cases) == 0 && !o.keep {
		return false, fmt.Errorf("no case matches %q: -list shows their names", o.run)
	}
	if err := prepareHost(ctx); err != nil {
		return false, err
	}
	begun := time.Now()
	ours, images, err := o.prepare(ctx)
	if err != nil {
		return false, err
	}
	defer ours.close()
	whole.Dir = filepath.Join(o.cache, "failed", begun.Format("2006-01-02-150405")+fmt.Sprintf("-%d", os.Getpid()))
	p := newProgress(os.Stderr, cases)
	p.again = o.again
	if err := o.children(ctx, whole, images, ours, p); err != nil {
		return false, err
	}
	results := p.results()
	fmt.Fprintln(os.Stderr, p.summary(time.Since(begun)))
	ok = p.failed() == 0 && len(results) == len(cases)
	for i := range results {
		results[i].Dir = "" // captures lie on this machine only
	}
	if last != nil {
		last.Families = families()
		last.Replace(results)
		return ok, last.Write(markdownFile, jsonFile)
	}
	return ok, o.report(begun, images, results)
}

// prepare builds our files, the guest's agent and the images.
func (o *options) prepare(ctx context.Context) (files, map[string]*image.Image, error) {
	tmp, err := os.MkdirTemp("", "softhca-interop-")
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	for name, pkg := range map[string]string{command: "./cmd/softhca", "agent": "./interop/agent"} {
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", filepath.Join(tmp, name), pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, nil, fmt.Errorf("go build %s: %w (run this in the root of the repository)\n%s", pkg, err, out)
		}
	}
	agent, err := os.ReadFile(filepath.Join(tmp, "agent"))
	if err != nil {
		return nil, nil, err
	}
	ours, err := openFiles(ctx, tmp)
	if err != nil {
		return nil, nil, err
	}
	images, err := o.images(ctx, agent)
	if err != nil {
		ours.close()
		return nil, nil, err
	}
	return ours, images, nil
}

// images returns the guests' images, by kernel version.
func (o *options) images(ctx context.Context, agent []byte) (map[string]*image.Image, error) {
	b := image.Builder{Dir: o.cache, Agent: agent, Say: say}
	images := map[string]*image.Image{}
	for _, version := range o.kernels() {
		img, err := b.Build(ctx, version)
		if err != nil {
			return nil, err
		}
		images[version] = img
	}
	return images, nil
}

// say prints progress for the user.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "interop: "+format+"\n", args...) }

// children runs a child for each kernel, in parallel or one after the other.
func (o *options) children(ctx context.Context, whole order, images map[string]*image.Image, ours files, p *progress) error {
	var wg sync.WaitGroup
	var mu sync.Mutex // guards errs
	var errs []error
	for _, version := range o.kernels() {
		mine := whole
		mine.Kernel, mine.Image = version, *images[version]
		run := func() {
			if err := child(ctx, &mine, ours, p); err != nil {
				if ctx.Err() == nil {
					say("kernel %s: no more cases: %v", version, err)
				}
				mu.Lock()
				errs = append(errs, fmt.Errorf("kernel %s: %w", version, err))
				mu.Unlock()
			}
		}
		if o.parallel {
			wg.Go(run)
		} else {
			run()
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// child runs the cases of one kernel in namespaces of their own.
func child(ctx context.Context, o *order, ours files, p *progress) error {
	orders, tell, err := os.Pipe()
	if err != nil {
		return err
	}
	heard, events, err := os.Pipe()
	if err != nil {
		return errors.Join(err, orders.Close(), tell.Close())
	}
	done := make(chan error, 1)
	go func() { done <- netns.Run(ctx, nil, append([]*os.File{orders, events}, ours...)) }()
	ended := make(chan error, 1)
	go func() {
		err := json.NewEncoder(tell).Encode(o)
		ended <- errors.Join(err, tell.Close())
	}()
	failure := make(chan error, 1)
	go func() { failure <- p.listen(heard) }()
	err = <-done
	// The child's events are in the pipe; closing our end lets the reader see
	// EOF.
	_ = events.Close()
	_ = orders.Close()
	told := <-failure
	<-ended
	if told != nil {
		return told
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("the child ended: %w", err)
	}
	return err
}

// listen takes events until EOF. It returns the error that the child reported.
func (p *progress) listen(r io.ReadCloser) error {
	defer func() { _ = r.Close() }()
	var told error
	for d := json.NewDecoder(r); ; {
		var e event
		if err := d.Decode(&e); err != nil {
			return told // the child ended, perhaps in the middle of an event
		}
		switch {
		case e.Err != "":
			told = errors.New(strings.TrimSpace(e.Err))
		case e.Ended != nil:
			p.ended(*e.Ended)
		case e.Begun != "":
			p.began(e.Begun)
		}
	}
}

// The files of the report of all cases.
const (
	markdownFile = "docs/interop.md"
	jsonFile     = "docs/interop.json"
)

// report writes the report, to the files in docs only if all cases ran.
func (o *options) report(begun time.Time, images map[string]*image.Image, results []suite.Result) error {
	markdown, machine := o.out, o.json
	if o.kernel == "both" && o.run == "" && !o.short && markdown == "" && machine == "" {
		markdown, machine = markdownFile, jsonFile
	}
	r := report.Report{Date: begun, Host: host(), Seconds: time.Since(begun).Seconds(), Families: families(), Results: results}
	for _, version := range o.kernels() {
		img := images[version]
		r.Peers = append(r.Peers, report.Peer{Kernel: version, Release: img.Release, Packages: img.Packages})
	}
	return r.Write(markdown, machine)
}

// host describes what emulates the guests.
func host() string {
	out, err := exec.Command(guest.QEMU, "--version").Output()
	if err != nil {
		return "QEMU"
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return fmt.Sprintf("%s, emulation only, on %d processors", strings.TrimSpace(line), runtime.NumCPU())
}
