//go:build mutation

package mutation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"time"
)

// seeds is how many runs the simulator has to notice a mutant.
const seeds = 200

// patience is how long a probe may take. An engine that is broken on purpose
// may never end.
const patience = 20 * time.Second

// report is what the probe prints.
type report struct {
	Violation *violation
	Scripts   []outcome
}

type violation struct {
	Check  string
	Seed   uint64
	Detail string
}

type outcome struct {
	Name   string
	Covers []string
	Error  string
}

// failed returns the names of the scripts that failed.
func (r *report) failed() []string {
	var names []string
	for _, s := range r.Scripts {
		if s.Error != "" {
			names = append(names, s.Name)
		}
	}
	return names
}

// rig builds and runs probes.
type rig struct {
	root   string          // of the module
	dir    string          // for what is built
	common string          // the probe with all mutants that are grafted on
	alone  map[string]bool // mutants that need a build of their own
}

// newRig builds the common probe.
func newRig(root, dir string, all []mutant) (*rig, error) {
	g := &rig{root: root, dir: dir, alone: make(map[string]bool)}
	targets, err := locate(root, all)
	if err != nil {
		return nil, err
	}
	changed := make(map[string][]byte)
	for name, t := range targets {
		text, rest, pkg, err := graftAll(t.source, t.mutants)
		if err != nil {
			return nil, err
		}
		changed[name] = text
		changed[path.Join(path.Dir(name), "selectedmutant.go")] = fmt.Appendf(nil, selector, pkg, selectVar)
		for _, m := range rest {
			g.alone[m.name] = true
		}
	}
	g.common, err = g.build(changed)
	return g, err
}

// target is a file and the mutants in it.
type target struct {
	source  *source
	mutants []*numbered
}

// locate finds the place of every mutant. It returns the files by name.
func locate(root string, all []mutant) (map[string]*target, error) {
	targets := make(map[string]*target)
	var failed error
	for i := range all {
		m := &numbered{mutant: &all[i], number: i + 1}
		t := targets[m.file]
		if t == nil {
			s, err := readSource(root, m.file)
			if err != nil {
				return nil, err
			}
			t = &target{source: s}
			targets[m.file] = t
		}
		var err error
		if m.at, err = m.find(t.source); err != nil {
			failed = errors.Join(failed, fmt.Errorf("mutant %s: %w", m.name, err))
		}
		t.mutants = append(t.mutants, m)
	}
	return targets, failed
}

// build builds a probe with changed files and returns its path.
func (g *rig) build(changed map[string][]byte) (string, error) {
	dir, err := os.MkdirTemp(g.dir, "probe")
	if err != nil {
		return "", err
	}
	replace := make(map[string]string)
	for name, text := range changed {
		file := filepath.Join(dir, strconv.Itoa(len(replace))+".go")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(g.root, name)] = file
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay, bin := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "probe")
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-overlay", overlay, "-o", bin, "./internal/mutation/probe")
	cmd.Dir = g.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return bin, nil
}

// try runs a mutant.
func (g *rig) try(ctx context.Context, m *mutant, number int) (*report, error) {
	if !g.alone[m.name] {
		return g.run(ctx, g.common, m.profile, number)
	}
	s, err := readSource(g.root, m.file)
	if err != nil {
		return nil, err
	}
	if _, err := m.find(s); err != nil { // it was there a moment ago
		return nil, err
	}
	bin, err := g.build(map[string][]byte{m.file: []byte(m.change(s))})
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(filepath.Dir(bin))
	return g.run(ctx, bin, m.profile, number)
}

// run runs a probe with the mutant of a number: the simulator if profile is
// not empty, and the scripts.
func (g *rig) run(ctx context.Context, bin, profile string, number int) (*report, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	args := []string{"-scripts", filepath.Join("internal", "script", "testdata")}
	if profile != "" {
		args = append(args, "-profile", profile, "-seeds", strconv.Itoa(seeds))
	}
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Dir = g.root
	cmd.Env = append(os.Environ(), fmt.Sprint(selectVar, "=", number))
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("probe: %w", err)
	}
	r := new(report)
	return r, json.Unmarshal(out, r)
}
