//go:build linux

package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
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

// program is a process and its descendants, in a process group of their own. The children
// of a server that forks for each client may outlive it and hold its output open; killing
// the group ends them too. A variable in the environment marks descendants that leave the
// group, as fio's jobs do. A job that went on would keep its address and port from the next case.
type program struct {
	*exec.Cmd
	ctx  context.Context
	mark string // NAME=VALUE
}

// markName is the name of the variable that marks the descendants of a program.
const markName = "CAPI_CHECK_PROGRAM"

// outputDelay bounds how long Wait waits for descendants that hold the output open.
const outputDelay = 5 * time.Second

// newProgram returns a program whose process group is killed when ctx ends.
func newProgram(ctx context.Context, out *bytes.Buffer, args ...string) *program {
	p := &program{Cmd: exec.CommandContext(ctx, args[0], args[1:]...), ctx: ctx, mark: markName + "=" + rand.Text()}
	p.Env = append(os.Environ(), p.mark)
	p.Stdout, p.Stderr = out, out
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.Cancel = p.kill
	p.WaitDelay = outputDelay
	return p
}

// launched returns a program that softhca run starts.
func (s *stand) launched(ctx context.Context, addrs []string, out *bytes.Buffer, args ...string) *program {
	run := []string{filepath.Join(s.lib, "softhca"), "run"}
	for _, a := range addrs {
		run = append(run, "--addr", a)
	}
	return newProgram(ctx, out, append(append(run, "--"), args...)...)
}

// command returns a program that runs on the library without softhca run.
func (s *stand) command(ctx context.Context, addr string, out *bytes.Buffer, args ...string) *program {
	p := newProgram(ctx, out, args...)
	p.Env = append(p.Env, "LD_LIBRARY_PATH="+s.lib, "SOFTHCA_ADDR="+addr)
	return p
}

// withTerminal makes a terminal the standard input of the program. The returned function
// closes both ends of the terminal.
func (p *program) withTerminal() (func(), error) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("unlock the terminal: %w", err), master.Close())
	}
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, master.Fd(), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return nil, errors.Join(fmt.Errorf("open the terminal: %w", errno), master.Close())
	}
	slave := os.NewFile(fd, "terminal")
	p.Stdin = slave
	return func() { _, _ = slave.Close(), master.Close() }, nil // the program never writes to it
}

// kill kills a program that was started: its process group, and all other descendants.
func (p *program) kill() error {
	err := syscall.Kill(-p.Process.Pid, syscall.SIGKILL)
	killed := make(map[int]bool)
	for again := true; again; { // for descendants that were forked in between
		again = false
		for _, pid := range p.marked() {
			if !killed[pid] {
				killed[pid], again = true, true
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			}
		}
	}
	return err
}

// marked returns the processes that have the mark of the program. A process that has ended
// has no environment.
func (p *program) marked() (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil || !slices.Contains(strings.Split(string(env), "\x00"), p.mark) {
			continue // another user's, or another program's
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// afterwards is how long a server that stays must still run after its client has ended.
const afterwards = 200 * time.Millisecond

// end ends a server whose client has ended, with or without an error. If the server stays, it must
// still run, and is killed; otherwise it must end by itself without an error.
func (p *program) end(stays bool, client error) error {
	if client != nil {
		_ = p.kill() // it may have ended, or wait for the client forever
		return p.Wait()
	}
	if !stays {
		return p.Wait()
	}
	for until := time.Now().Add(afterwards); time.Now().Before(until); time.Sleep(pause) {
		if p.ended() {
			return fmt.Errorf("%s ended, and was to serve other clients: %w", filepath.Base(p.Path), cmp.Or(p.Wait(), errors.New("exit status 0")))
		}
	}
	_ = p.kill()
	_ = p.Wait() // reports that the server was killed
	return nil
}

// pause is the interval at which until repeats its question.
const pause = 20 * time.Millisecond

// until calls so until it returns true, the program ends, or its context is done. what completes
// the sentence "waiting until …" in the error.
func (p *program) until(what string, so func() (bool, error)) error {
	for {
		ended := p.ended() // before so: the last act of the program may make it true
		switch is, err := so(); {
		case err != nil:
			return err
		case is:
			return nil
		case ended:
			return fmt.Errorf("%s ended before %s", filepath.Base(p.Path), what)
		}
		select {
		case <-p.ctx.Done():
			return fmt.Errorf("%s: waiting until %s: %w", filepath.Base(p.Path), what, p.ctx.Err())
		case <-time.After(pause):
		}
	}
}

// ended reports whether a program has ended. Wait still has to be called.
func (p *program) ended() bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, p.Process.Pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err != nil || info.Signo != 0
}

// Run calls Start and Wait.
func (p *program) Run() error {
	if err := p.Start(); err != nil {
		return err
	}
	return p.Wait()
}

// Wait waits until a program ends or is killed because its time is up, which it reports as an
// error.
func (p *program) Wait() error {
	err := p.Cmd.Wait()
	if err != nil {
		_ = p.kill() // the remaining processes of the group, if any
	}
	switch {
	case errors.Is(p.ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%s did not end, and was killed: %w", filepath.Base(p.Path), errors.Join(p.ctx.Err(), err))
	case errors.Is(err, exec.ErrWaitDelay):
		return fmt.Errorf("what %s had started went on for %v after its end, and was killed: %w", filepath.Base(p.Path), outputDelay, err)
	}
	return err
}
