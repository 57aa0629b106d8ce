package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/perf"
	"github.com/softhca/softhca/verbs"
)

// perfAddr is the client's address with --local.
const perfAddr = "127.0.0.1"

// runLocal measures between two processes of this host: this one, and a second
// process of the same program as the server. Faults, also those of the
// environment, apply to the client; those of --server-fault apply to the server.
func (f *perfFlags) runLocal(ctx context.Context, cmd *cobra.Command) error {
	f.addr = cmp.Or(f.addr, perfAddr)
	own, err := oneAddr("addr", f.addr)
	if err != nil {
		return err
	}
	beside := func(do func(server string) error) error {
		server, stop, err := f.startServer(ctx, cmd, own.Next())
		if err != nil {
			return err
		}
		if err = do(server); err != nil {
			_ = stop(false) // the server has reported its error on standard error
			return err
		}
		return stop(true)
	}
	if f.loss > 0 {
		return f.compare(ctx, cmd, beside)
	}
	return beside(func(server string) error { return f.measure(ctx, cmd, server) })
}

// lossRatio is the result of --loss-ratio.
type lossRatio struct {
	Loss     float64      `json:"loss"`     // share of packets, each way
	Ratio    float64      `json:"ratio"`    // of the payload rates
	Lossless perf.Summary `json:"lossless"` // the measurement without loss
	Lossy    perf.Summary `json:"lossy"`    // the measurement with it
}

// String returns the result for people.
func (r lossRatio) String() string {
	return fmt.Sprintf("lossless: %v\nlossy:    %v\nratio:    %.3f of the payload rate with %g %% of packets lost each way",
		r.Lossless, r.Lossy, r.Ratio, r.Loss*100)
}

// compare measures without faults and with loss, and prints the ratio.
func (f *perfFlags) compare(ctx context.Context, cmd *cobra.Command, beside func(func(string) error) error) error {
	r := lossRatio{Loss: f.loss}
	for _, run := range [...]struct {
		faults []string
		sum    *perf.Summary
	}{{nil, &r.Lossless}, {[]string{fmt.Sprintf("drop p=%v dir=both", f.loss)}, &r.Lossy}} {
		f.faults = run.faults
		err := beside(func(server string) (err error) {
			*run.sum, err = f.client(ctx, cmd, server)
			return err
		})
		if err != nil {
			return err
		}
	}
	if r.Lossless.Gbps > 0 {
		r.Ratio = r.Lossy.Gbps / r.Lossless.Gbps
	}
	return printResult(cmd.OutOrStdout(), f.asJSON, r)
}

// serverGrace is the time that the server has to end by itself after its client
// has ended.
const serverGrace = 10 * time.Second

// startServer runs this program as a server on an address, and returns the
// server's TCP address. stop waits for the end of the server and returns its
// error. stop(true) gives the server serverGrace to end by itself; stop(false)
// ends it.
func (f *perfFlags) startServer(ctx context.Context, cmd *cobra.Command, at netip.Addr) (server string, stop func(well bool) error, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	args := []string{
		"perf", f.plan.Op.String(), "--child", "--addr", at.String(), "--transport", f.transport,
		"--fault-seed", strconv.FormatUint(f.faultSeed, 10),
	}
	if f.wire != "" {
		args = append(args, "--wire", f.wire)
	}
	if f.logLevel != "" {
		args = append(args, "--log-level", f.logLevel)
	}
	if f.logFormat != "" {
		args = append(args, "--log-format", f.logFormat)
	}
	if f.alt != "" {
		// parse has checked the address.
		args = append(args, "--alt", netip.MustParseAddr(f.alt).Next().String())
	}
	for _, rule := range f.server {
		args = append(args, "--fault", rule)
	}
	child := exec.CommandContext(ctx, self, args...)
	child.Env = slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, verbs.FaultsEnv+"=") })
	child.Stderr = cmd.ErrOrStderr()
	in, err := child.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := child.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := child.Start(); err != nil {
		return "", nil, fmt.Errorf("start the server: %w", err)
	}
	stop = func(well bool) error {
		end := func() { _ = in.Close() } // the child ends with its standard input
		if well {
			defer time.AfterFunc(serverGrace, end).Stop()
		} else {
			end()
		}
		if err := child.Wait(); err != nil {
			return fmt.Errorf("the server: %w", err)
		}
		return nil
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", nil, errors.Join(errors.New("the server did not start"), stop(false))
	}
	return strings.TrimSpace(line), stop, nil
}
