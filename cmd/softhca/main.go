package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/launch"
	"github.com/softhca/softhca/internal/printable"
)

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() { cancel(interruption(<-signals)) }()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// interruption returns the error of a command that a signal ended. Its exit code is
// the one that shells give to a program killed by the signal: 130 for Ctrl-C.
func interruption(s os.Signal) error {
	code := exitFailed
	if n, ok := s.(syscall.Signal); ok {
		code = 128 + int(n)
	}
	return &exitError{code, context.Canceled}
}

// run executes the command line args and returns the exit code. It stops early
// when ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if err := refuseSetID(); err != nil {
		_, _ = fmt.Fprintln(stderr, "softhca:", err) // if it is closed, the error cannot be reported
		return exitFailed
	}
	root := newRootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	initCompletion(root) // after the output is set, which it keeps
	prepareCompletion(root, args)
	cmd, err := root, refuseReplaced(args)
	if err == nil {
		cmd, err = root.ExecuteContextC(ctx)
	}
	if err == nil {
		return exitOK
	}
	why, interrupted := err.Error(), ctx.Err() != nil && errors.Is(err, context.Canceled)
	if interrupted {
		why = strings.ReplaceAll(why, context.Canceled.Error(), "interrupted")
	}
	// If standard error is closed, the error cannot be reported.
	_, _ = fmt.Fprintln(stderr, "softhca:", printable.Lines(printable.Args(why, args)))
	if usage := (*usageError)(nil); errors.As(err, &usage) {
		_, _ = fmt.Fprintf(stderr, "Try '%s --help'.\n", cmd.CommandPath())
		return exitCode(cmd, exitUsage)
	}
	exit := (*exitError)(nil)
	if errors.As(err, &exit) || interrupted && errors.As(context.Cause(ctx), &exit) {
		return exit.code
	}
	return exitCode(cmd, exitFailed)
}

// exitCode returns the exit code of a failed command: code, or for run a separate code,
// because the program under run may end with any usual code. env, nice and timeout do the
// same.
func exitCode(cmd *cobra.Command, code int) int {
	if cmd.Name() == runName {
		return launch.CodeFailed
	}
	return code
}

// exitError is an error with an exit code of its own.
type exitError struct {
	code int
	err  error
}

// Error returns what is wrong.
func (e *exitError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *exitError) Unwrap() error { return e.err }

// usageError is a wrong command line.
type usageError struct{ err error }

// Error returns what is wrong.
func (e *usageError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *usageError) Unwrap() error { return e.err }

// usagef returns a usageError.
func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }
