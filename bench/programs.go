package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/softhca/softhca/internal/libraries"
	"github.com/softhca/softhca/verbs"
)

// revision returns the commit that a program was built from, "unknown" if it
// has none. It fails for a file that is no Go program.
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

// outcome has the fields that bench uses from the output of softhca perf --json
// and of bench/baseline, each of which has some of them.
type outcome struct {
	Gbps    float64 `json:"gbps"`
	Mpps    float64 `json:"mpps"`
	P50     float64 `json:"p50_us"`
	Mean    float64 `json:"mean_us"`
	Latency struct {
		P50  float64 `json:"p50"` // microseconds
		Mean float64 `json:"mean"`
	} `json:"lat_us"`
	Least       uint64 `json:"qp_least"`
	Most        uint64 `json:"qp_most"`
	Retransmits uint64 `json:"retransmits"`
	Client      struct {
		Timeouts uint64 `json:"timeouts"`
	} `json:"client"`
}

// programs are the programs to run.
type programs struct {
	baseline, softhca string // paths
	before            string // path of an older softhca; empty for none
	epoll             string // path of the program of bench/epoll
	seconds           float64
}

// build compiles the two commands into dir, and the libraries and programs in C that the options
// need. The working directory is in the module.
func build(ctx context.Context, dir string, o *options) (programs, error) {
	p := programs{baseline: filepath.Join(dir, "baseline"), softhca: filepath.Join(dir, "softhca"), epoll: filepath.Join(dir, "epoll")}
	for out, pkg := range map[string]string{
		p.baseline: "github.com/softhca/softhca/bench/baseline",
		p.softhca:  "github.com/softhca/softhca/cmd/softhca",
	} {
		cmd := exec.CommandContext(ctx, "go", "build", libraries.NoVCS, "-o", out, pkg)
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return p, fmt.Errorf("build %s: %w", pkg, err)
		}
	}
	if !o.libraries && !o.epoll && !o.check {
		return p, openTables(dir)
	}
	tree, ok := libraries.Tree()
	if !ok {
		return p, libraries.ErrNotFound
	}
	if o.epoll && epollMissing() == "" {
		if err := buildEpoll(ctx, tree, p.epoll); err != nil {
			return p, err
		}
	}
	return p, libraries.Build(ctx, tree, dir, io.Discard) // softhca run finds them in its own directory
}

// command returns the program of a subject and its arguments; share is the loss
// of a path.
func (p *programs) command(s *subject, share float64) []string {
	seconds := strconv.FormatFloat(p.seconds, 'f', -1, 64)
	duration := time.Duration(p.seconds * float64(time.Second)).String()
	trips := strconv.Itoa(p.trips(s))
	measured := slices.Concat([]string{p.softhca, "perf"}, s.args, []string{"--json", "--duration", duration})
	switch s.run {
	case runBaseline:
		if s.rate > 0 {
			return slices.Concat([]string{p.baseline, "-local", "-seconds", "60"}, s.args, []string{"-trips", trips})
		}
		return slices.Concat([]string{p.baseline, "-local", "-seconds", seconds}, s.args)
	case runPerf, runUser, runShared:
		return append(measured, "--local")
	case runConnect:
		return []string{p.softhca, "perf", "cm"}
	case runOver:
		count := "-n"
		if s.serves {
			count = "-c"
		}
		return slices.Concat([]string{p.softhca, "run"}, s.flags, []string{"--"}, s.args, []string{count, trips})
	case runEpoll, runEpollTCP:
		return p.epollCommand(s)
	case runPlain:
		return slices.Concat(s.args, []string{"-n", trips})
	case runFabric:
		return slices.Concat(s.args, []string{"-I", trips})
	case runPathPerf:
		return overPath(share, []string{p.softhca, "perf", s.args[0], "--addr", pathServer}, append(measured, "--addr", pathClient, pathServer))
	case runPathTCP:
		at := pathServer + ":" + pathPort
		return overPath(share, []string{p.baseline, "-tcp", "-listen", at}, []string{p.baseline, "-tcp", "-seconds", seconds, "-peer", at})
	default:
		return nil
	}
}

// overUDP is the setting with which programs over softhca do not share memory, unless --wire asks for
// it. Older builds of -before ignore it.
const overUDP = verbs.WireEnv + "=udp"

// program returns a program to run over UDP. The programs that it starts inherit this.
func program(ctx context.Context, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), overUDP)
	return cmd
}

// told returns a command line that readers can run themselves.
func told(args []string) string {
	words := slices.Clone(args)
	if len(args) > 1 && filepath.Base(args[0]) == "softhca" && !slices.Contains(args, "--wire") {
		words = slices.Insert(words, 0, overUDP)
	}
	for i, w := range words {
		if filepath.IsAbs(w) {
			words[i] = filepath.Base(w)
		} else if strings.Contains(w, " ") {
			words[i] = "'" + w + "'"
		}
	}
	return strings.Join(words, " ")
}

// told returns the command line of a subject for readers.
func (p *programs) told(s *subject, share float64) string {
	return strings.Join(append(slices.Clone(s.env), told(p.command(s, share))), " ")
}

// missing returns what this machine lacks for a subject, empty for nothing.
func (s *subject) missing() string {
	switch s.run {
	case runUser:
		return userMissing()
	case runShared:
		return sharedMissing()
	case runPathPerf, runPathTCP:
		return pathMissing()
	case runEpoll, runEpollTCP:
		return epollMissing()
	default:
		return s.programMissing()
	}
}

// measure runs a subject once and returns its value, and its whole outcome.
func (p *programs) measure(ctx context.Context, s *subject, share float64) (float64, outcome, error) {
	var r outcome
	args := p.command(s, share)
	switch s.run {
	case runConstant:
		return 1, r, nil
	case runOver, runPlain, runFabric, runConnect, runEpoll, runEpollTCP:
		v, err := p.measurePair(ctx, s)
		return v, r, err
	case runShared:
		end, err := p.share(ctx)
		if err != nil {
			return 0, r, err
		}
		defer end()
	}
	cmd := program(ctx, args)
	cmd.Env = append(cmd.Env, s.env...)
	switch s.run {
	case runUser:
		dropPrivilege(cmd)
	case runPathPerf, runPathTCP:
		isolate(cmd)
	}
	stop := func() error { return nil }
	if s.read {
		stop = readTables(ctx)
	}
	if err := errors.Join(runJSON(&r, cmd), stop()); err != nil {
		return 0, r, err
	}
	v := s.of(&r)
	if !(v > 0) {
		return 0, r, fmt.Errorf("%s: nothing measured: %+v", told(args), r)
	}
	return v, r, nil
}

// runJSON runs a program and decodes its output. Its standard error is shown
// only if it failed.
func runJSON(into any, cmd *exec.Cmd) error {
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	err := cmd.Run()
	if err == nil {
		err = json.Unmarshal(out.Bytes(), into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", told(cmd.Args), err, log.Bytes())
	}
	return nil
}
