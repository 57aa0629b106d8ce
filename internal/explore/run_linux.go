package explore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Run runs the program once under a fault, nil for none, for at most limit, and kills all processes that the program leaves behind. To find them,
// it makes this process the parent of all orphans among its descendants, and kills all its children at the end: the caller must not have others.
// also, if not nil, gets the output of the program, too. An error is one of running it, not of the program.
func (p *Program) Run(ctx context.Context, f *Fault, limit time.Duration, also io.Writer) (*Run, error) {
	dir, err := os.MkdirTemp("", "softhca-explore-*")
	if err != nil {
		return nil, fmt.Errorf("%w; set TMPDIR to use another directory", err)
	}
	defer os.RemoveAll(dir)
	counted, checked := filepath.Join(dir, "sites"), filepath.Join(dir, "check")
	if err := errors.Join(os.Mkdir(counted, 0o700), os.Mkdir(checked, 0o700)); err != nil {
		return nil, err
	}
	env := slices.DeleteFunc(slices.Clone(p.Env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name == faultsEnv || name == sitesEnv || name == checkEnv || name == checkDirEnv || name == speedupEnv
	})
	if f != nil {
		for name, value := range f.Environment() {
			env = append(env, name+"="+value)
		}
	}
	if f != nil && f.stops {
		running, cancel := context.WithCancel(ctx)
		defer cancel()
		go continueStopped(running)
	}
	env = append(env, sitesEnv+"="+counted, checkEnv+"=error", checkDirEnv+"="+checked)
	r, err := start(ctx, append([]string{p.Softhca, "run", "--"}, p.Args...), env, limit, also)
	if err != nil {
		return nil, err
	}
	if err := r.read(counted, checked); err != nil {
		return nil, err
	}
	if p.Oracle != "" && r.Code == 0 && !r.TimedOut && (f == nil || r.Acted > 0) {
		r.Denied, err = p.ask(ctx, limit)
	}
	return r, err
}

// start runs a command and waits for its end, and the end of all that it has started.
func start(ctx context.Context, args, env []string, limit time.Duration, also io.Writer) (*Run, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become the parent of orphans: %w", err)
	}
	defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }() // orphans of others are not reaped here
	in, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for this command
	r := new(Run)
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	_ = out.Close() // the program has its own copy of the descriptor
	kept, read := new(output), make(chan struct{})
	go func() {
		defer close(read)
		var w io.Writer = kept
		if also != nil {
			w = io.MultiWriter(kept, also)
		}
		_, _ = io.Copy(w, in) // it ends when all writers have ended
	}()
	ended := waitEnd(ctx, cmd.Process, begin.Add(limit))
	r.Duration = time.Since(begin)
	if !ended {
		r.TimedOut = ctx.Err() == nil
		if r.TimedOut {
			r.look(kept)
		}
		_ = cmd.Process.Kill() // it may have ended meanwhile
	}
	_ = cmd.Wait() // its state says how it ended
	r.Code = exitCode(cmd.ProcessState)
	if err := killChildren(); err != nil {
		return nil, err
	}
	_ = in.SetReadDeadline(time.Now().Add(readTimeout)) // a process that is no child of this one may have the output, too
	<-read
	r.Output = string(kept.tail.kept)
	return r, ctx.Err()
}

// exitCode returns the exit code in the form of shells.
func exitCode(state *os.ProcessState) int {
	if w, ok := state.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return signalCode + int(w.Signal())
	}
	return state.ExitCode()
}

const (
	killTimeout = 30 * time.Second // on a busy machine, big processes take seconds to end
	readTimeout = 5 * time.Second  // for the end of their output
	pause       = time.Millisecond
)

// killChildren kills all children of this process, and theirs, which become its own.
func killChildren() error {
	for end := time.Now().Add(killTimeout); ; time.Sleep(pause) {
		pids, err := children()
		if err != nil {
			return err
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL) // it may have ended, or be another user's
		}
		// Threads that were traced are reaped one by one, like children.
		for got := 1; got > 0; {
			got, _ = unix.Wait4(-1, nil, unix.WNOHANG|unix.WALL, nil)
		}
		switch {
		case len(pids) == 0:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("processes that the program has started cannot be ended; are they another user's? Their IDs: %v: %w", pids, unix.EBUSY)
		}
	}
}

// children returns the processes whose parent is this one.
func children() (pids []int, err error) {
	all, err := processes()
	for _, p := range all {
		if p.parent == os.Getpid() {
			pids = append(pids, p.pid)
		}
	}
	return pids, err
}

// process is a running process.
type process struct {
	pid, parent int
	name        string
	ended       bool // its parent has not noticed it yet
	stopped     bool
}

// processes returns all processes.
func processes() (all []process, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue // it has ended
		}
		// The name, in parentheses, may contain anything. After it: the state and the parent.
		end := bytes.LastIndexByte(stat, ')')
		_, name, _ := strings.Cut(string(stat[:max(end, 0)]), "(")
		fields := strings.Fields(string(stat[end+1:]))
		if len(fields) < 2 {
			continue
		}
		if parent, err := strconv.Atoi(fields[1]); err == nil {
			all = append(all, process{pid, parent, name, fields[0] == "Z" || fields[0] == "X", fields[0] == "T"})
		}
	}
	return all, nil
}

// descendants returns all running processes below this one: its children, their children and so on.
func descendants() (below []process) {
	all, err := processes()
	if err != nil {
		return nil
	}
	of := map[int]bool{os.Getpid(): true}
	for grows := true; grows; {
		grows = false
		for _, p := range all {
			if of[p.parent] && !of[p.pid] && !p.ended {
				of[p.pid], grows = true, true
				below = append(below, p)
			}
		}
	}
	return below
}

// continueStopped continues each process of the run that has been stopped for a while, until the context ends.
func continueStopped(ctx context.Context) {
	since := map[int]time.Time{}
	tick := time.NewTicker(watch)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, p := range descendants() {
			at, known := since[p.pid]
			switch {
			case !p.stopped:
				delete(since, p.pid)
			case !known:
				since[p.pid] = time.Now()
			case time.Since(at) >= stopped:
				_ = unix.Kill(p.pid, unix.SIGCONT) // it may have ended
			}
		}
	}
}

// watch is how often processes are looked at that may be stopped.
const watch = 100 * time.Millisecond
