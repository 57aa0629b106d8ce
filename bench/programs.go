package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// revision returns the commit that a program was built from, "unknown" if it
// does not tell. It fails for what is no Go program.
func revision(program string) (string, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return "", err
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value, nil
		}
	}
	return "unknown", nil
}

// perfResult is what is used of the output of softhca perf --json.
type perfResult struct {
	Gbps    float64 `json:"gbps"`
	Mpps    float64 `json:"mpps"`
	Latency struct {
		P50 float64 `json:"p50"` // microseconds
	} `json:"lat_us"`
	Retransmits uint64 `json:"retransmits"`
}

// baselineResult is what is used of the output of bench/baseline.
type baselineResult struct {
	Gbps float64 `json:"gbps"`
	Mpps float64 `json:"mpps"`
	P50  float64 `json:"p50_us"`
	Mean float64 `json:"mean_us"`
}

// programs are the two sides of the comparison.
type programs struct {
	baseline, softhca string // paths
	before            string // path of an older softhca; empty for none
	seconds           float64
}

// build compiles both into dir. The working directory is in the module.
func build(ctx context.Context, dir string) (programs, error) {
	p := programs{baseline: filepath.Join(dir, "baseline"), softhca: filepath.Join(dir, "softhca")}
	for out, pkg := range map[string]string{
		p.baseline: "github.com/softhca/softhca/bench/baseline",
		p.softhca:  "github.com/softhca/softhca/cmd/softhca",
	} {
		cmd := exec.CommandContext(ctx, "go", "build", "-o", out, pkg)
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return p, fmt.Errorf("build %s: %w", pkg, err)
		}
	}
	return p, nil
}

func (p *programs) baselineArgs(y *yardstick) []string {
	return append([]string{"-local", "-seconds", strconv.FormatFloat(p.seconds, 'f', -1, 64)}, y.args...)
}

// softhcaArgs are those of the process that measures.
func (p *programs) softhcaArgs(m *measurement) []string {
	if m.of == nil {
		iters := max(int(p.seconds*sleepingRate), 1)
		return []string{"pingpong", "--events", "--size", "64", "--iters", strconv.Itoa(iters)}
	}
	d := time.Duration(p.seconds * float64(time.Second))
	return append(append([]string{"perf"}, m.args...), "--local", "--json", "--duration", d.String())
}

// measureBaseline runs the baseline once.
func (p *programs) measureBaseline(ctx context.Context, y *yardstick) (float64, error) {
	var r baselineResult
	if err := runJSON(ctx, &r, p.baseline, p.baselineArgs(y)); err != nil {
		return 0, err
	}
	v := y.of(&r)
	if v <= 0 {
		return 0, fmt.Errorf("baseline %s: nothing measured: %+v", strings.Join(y.args, " "), r)
	}
	return v, nil
}

// measure runs the adapter once, as the program at a path is.
func (p *programs) measure(ctx context.Context, softhca string, m *measurement) (float64, uint64, error) {
	var r perfResult
	args := p.softhcaArgs(m)
	if m.of == nil {
		v, err := measureTrip(ctx, softhca, args)
		return v, 0, err
	}
	if err := runJSON(ctx, &r, softhca, args); err != nil {
		return 0, 0, err
	}
	v := m.of(&r)
	if v <= 0 {
		return 0, 0, fmt.Errorf("softhca %s: nothing measured: %+v", strings.Join(args, " "), r)
	}
	return v, r.Retransmits, nil
}

// sleepingRate is how many round trips between programs that sleep are made
// for each second that other measurements take.
const sleepingRate = 20_000

// measureTrip runs both sides of a ping-pong and returns the mean round trip
// in microseconds. The client is tried until the server listens.
func measureTrip(ctx context.Context, softhca string, args []string) (float64, error) {
	const client, server = "127.0.0.1", "127.0.0.2"
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	port, err := freePort()
	if err != nil {
		return 0, err
	}
	args = slices.Concat(args, []string{"--port", port, "--addr"})
	echo := exec.CommandContext(ctx, softhca, append(slices.Clone(args), server)...)
	if err := echo.Start(); err != nil {
		return 0, err
	}
	var out []byte
	for {
		cmd := exec.CommandContext(ctx, softhca, append(slices.Clone(args), client, server)...)
		if out, err = cmd.CombinedOutput(); err == nil || !bytes.Contains(out, []byte("connection refused")) {
			break
		}
	}
	if err != nil {
		cancel() // the server waits
	}
	if err = errors.Join(err, echo.Wait()); err != nil {
		return 0, fmt.Errorf("softhca %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return tripTime(string(out))
}

// freePort returns a TCP port that nobody listens on.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// tripTime finds the time of a round trip in what pingpong prints.
func tripTime(out string) (float64, error) {
	words := strings.Fields(out)
	if i := slices.Index(words, "usec/iter"); i > 0 {
		return strconv.ParseFloat(words[i-1], 64)
	}
	return 0, fmt.Errorf("pingpong prints no time: %q", out)
}

// runJSON runs a program and decodes its output. What it wrote to standard
// error is shown only if it failed.
func runJSON(ctx context.Context, into any, program string, args []string) error {
	var out, log bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = &out, &log
	err := cmd.Run()
	if err == nil {
		err = json.Unmarshal(out.Bytes(), into)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", filepath.Base(program), strings.Join(args, " "), err, log.Bytes())
	}
	return nil
}
