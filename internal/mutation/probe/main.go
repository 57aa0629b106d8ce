package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/softhca/softhca/internal/script"
	"github.com/softhca/softhca/internal/sim"
)

// report is what the probe prints, as one JSON object.
type report struct {
	Violation *violation // the first; nil: every run was clean
	Scripts   []outcome
}

// violation is the first promise that a run of the simulator found broken.
type violation struct {
	Check  string
	Seed   uint64
	Detail string
}

// outcome is the outcome of one script.
type outcome struct {
	Name   string
	Covers []string
	Error  string // empty: it passed
}

func main() {
	profile := flag.String("profile", "mixed", "the simulator's `profile`")
	seeds := flag.Uint64("seeds", 0, "run the seeds 1 to `n`, until one fails")
	flag.Parse()
	if err := run(*profile, *seeds, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

func run(profile string, seeds uint64, scripts []string) error {
	var r report
	var err error
	if r.Violation, err = simulate(profile, seeds); err != nil {
		return err
	}
	if r.Scripts, err = runScripts(scripts); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// simulate returns the first violation in the seeds from 1 on.
func simulate(profile string, seeds uint64) (*violation, error) {
	for seed := uint64(1); seed <= seeds; seed++ {
		r, err := sim.Run(sim.Config{Seed: seed, Profile: profile})
		if err != nil {
			return nil, err
		}
		if v := r.Violation; v != nil {
			return &violation{v.Check, seed, firstLine(v.Detail)}, nil
		}
	}
	return nil, nil
}

// runScripts runs the scripts in files.
func runScripts(files []string) ([]outcome, error) {
	var all []outcome
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		all = append(all, runScript(strings.TrimSuffix(filepath.Base(f), ".qp"), string(text)))
	}
	return all, nil
}

// runScript runs one script. An engine that is broken on purpose may panic:
// that is a failure like any other.
func runScript(name, text string) (o outcome) {
	o.Name = name
	defer func() {
		if p := recover(); p != nil {
			o.Error = fmt.Sprintf("panic: %v", p)
		}
	}()
	r, err := script.Run(name, text)
	o.Covers = r.Covers
	if err != nil {
		o.Error = firstLine(err.Error())
	}
	return o
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
