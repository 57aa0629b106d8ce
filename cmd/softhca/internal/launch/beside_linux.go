package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// forwarded are the signals that the command passes on to the program.
var forwarded = [...]os.Signal{unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2}

// RunBeside runs the program as a child, passes signals on to it, and waits for its
// end. It returns the exit code, which is 128 plus the signal if a signal ended the
// program, or an Error if the program cannot be run.
func (o *Options) RunBeside(ctx context.Context) (code int, err error) {
	path, env, err := o.find(ctx)
	if err != nil {
		return 0, err
	}
	// Catch signals before the program runs: they are for the program.
	signals := make(chan os.Signal, len(forwarded))
	signal.Notify(signals, forwarded[:]...)
	defer signal.Stop(signals)
	child, err := start(path, o.Program, env)
	if errors.Is(err, unix.ENOEXEC) { // a script without an interpreter line
		child, err = start("/bin/sh", append([]string{"sh", path}, o.Program[1:]...), env)
	}
	if err != nil {
		return 0, notRun(fmt.Errorf("%s: %w", path, err))
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	for {
		select {
		case s := <-signals:
			if !terminalSends(s) {
				_ = child.Process.Signal(s) // fails if the child has just ended
			}
		case err := <-ended:
			if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
				return 0, &Error{CodeFailed, err}
			}
			return exitCode(child.ProcessState), nil
		}
	}
}

func start(path string, args, env []string) (*exec.Cmd, error) {
	child := &exec.Cmd{Path: path, Args: args, Env: env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	return child, child.Start()
}

// terminalSends reports whether the terminal sends a signal of the keyboard to the program
// too.
func terminalSends(s os.Signal) bool {
	if s != unix.SIGINT && s != unix.SIGQUIT {
		return false
	}
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// exitCode returns the exit code in the form of shells.
func exitCode(state *os.ProcessState) int {
	if w, ok := state.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return state.ExitCode()
}
