package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

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
}

// programs are the two sides of the comparison.
type programs struct {
	baseline, softhca string // paths
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

func (p *programs) perfArgs(m *measurement) []string {
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

// measure runs the adapter once.
func (p *programs) measure(ctx context.Context, m *measurement) (float64, uint64, error) {
	var r perfResult
	args := p.perfArgs(m)
	if err := runJSON(ctx, &r, p.softhca, args); err != nil {
		return 0, 0, err
	}
	v := m.of(&r)
	if v <= 0 {
		return 0, 0, fmt.Errorf("softhca %s: nothing measured: %+v", strings.Join(args, " "), r)
	}
	return v, r.Retransmits, nil
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
