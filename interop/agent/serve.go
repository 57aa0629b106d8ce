//go:build linux

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/softhca/softhca/interop/remote"
)

// serve runs the runner's commands until an error, which it returns, and a
// shell at the console for an interactive user.
func serve() error {
	l, err := net.Listen("tcp", fmt.Sprintf("0.0.0.0:%d", remote.Port))
	if err != nil {
		return err
	}
	go consoleShell()
	fmt.Println("interop: ready")
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			if err := command(c); err != nil {
				fmt.Println("agent:", err)
			}
		}()
	}
}

// consoleShell keeps a shell running whose terminal is the console.
func consoleShell() {
	for {
		tty, err := os.OpenFile("/dev/ttyS0", os.O_RDWR, 0)
		if err != nil {
			fmt.Println("agent:", err)
			return
		}
		sh := exec.Command("/bin/sh")
		sh.Dir = "/root"
		sh.Stdin, sh.Stdout, sh.Stderr = tty, tty, tty
		sh.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		if err := errors.Join(sh.Run(), tty.Close()); err != nil {
			time.Sleep(time.Second) // no shell can run: do not retry at full speed
		}
	}
}

// lingers is how long the agent waits for output of processes that outlive
// their script.
const lingers = 300 * time.Millisecond

// command runs the script that it reads from a connection. If the connection
// closes early, it kills all processes of the script, except those in a session
// of their own.
func command(c net.Conn) error {
	defer func() { _ = c.Close() }()
	k, script, err := remote.Read(c)
	if err != nil || k != remote.Run {
		return err
	}
	reply := &replies{to: c}
	cmd := exec.Command("/bin/sh", "-c", string(script))
	cmd.Dir = "/tmp"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = lingers
	cmd.Stdout, cmd.Stderr = stream{reply, remote.Stdout}, stream{reply, remote.Stderr}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		for {
			k, b, err := remote.Read(c)
			switch {
			case err != nil:
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended
				return
			case k == remote.Input:
				_, _ = stdin.Write(b) // it may not read
			case k == remote.InputEnd:
				_ = stdin.Close()
			case k == remote.Signal && len(b) == 1:
				_ = syscall.Kill(-cmd.Process.Pid, syscall.Signal(b[0]))
			}
		}
	}()
	// The process state has the exit code; an error about its output does not
	// matter.
	_ = cmd.Wait()
	return reply.send(remote.Exit, []byte{exitCode(cmd.ProcessState)})
}

func exitCode(s *os.ProcessState) byte {
	if w := s.Sys().(syscall.WaitStatus); w.Signaled() {
		return 128 + byte(w.Signal())
	}
	return byte(s.ExitCode())
}

// replies sends frames to the runner, one at a time.
type replies struct {
	mu sync.Mutex // guards the connection's outgoing frames
	to net.Conn
}

func (r *replies) send(k remote.Kind, b []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return remote.Write(r.to, k, b)
}

// stream sends a program's output.
type stream struct {
	to *replies
	k  remote.Kind
}

func (s stream) Write(b []byte) (int, error) {
	if err := s.to.send(s.k, b); err != nil {
		return 0, err
	}
	return len(b), nil
}
