package simple

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
)

// report prints the lines of a program. It ignores write errors.
type report struct {
	name string
	out  io.Writer
	err  io.Writer
}

// run prints the first and the last line, and before the last one an error in the
// form of perror.
func (r report) run(program func() error) error {
	_, _ = fmt.Fprintf(r.out, "%s: start\n", r.name)
	err := program()
	code := 0
	switch dns, failed := (*net.DNSError)(nil), (*callError)(nil); {
	case err == nil:
	case errors.As(err, &dns):
		code = -2
		_, _ = fmt.Fprintln(r.out, "rdma_getaddrinfo: Name or service not known")
	default:
		code = -1
		if errors.As(err, &failed) {
			_, _ = fmt.Fprintln(r.err, failed.perror())
		}
	}
	_, _ = fmt.Fprintf(r.out, "%s: end %d\n", r.name, code)
	return err
}

// callError is the error of a step, with the name of the call that the Linux program
// makes.
type callError struct {
	call string
	err  error
}

// in returns the callError of a call, or nil if err is nil.
func in(call string, err error) error {
	if err == nil {
		return nil
	}
	return &callError{call, err}
}

// Error returns the text of the cause.
func (e *callError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *callError) Unwrap() error { return e.err }

// perror returns the line that perror prints: the call and the text of its
// error number.
func (e *callError) perror() string {
	text := strings.ReplaceAll(e.err.Error(), context.Canceled.Error(), "interrupted")
	if errno := syscall.Errno(0); errors.As(e.err, &errno) {
		text = errno.Error()
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	return e.call + ": " + text
}
