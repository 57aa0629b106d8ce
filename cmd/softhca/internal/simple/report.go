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

// report prints the lines of a program. Errors of writing are ignored: if
// output is gone, nobody is left to tell.
type report struct {
	name string
	out  io.Writer
	err  io.Writer
}

// run prints the first and the last line, and before the last the call that
// failed as perror prints it.
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

// callError is an error of a step, under the name of the call that the Linux
// program would have made.
type callError struct {
	call string
	err  error
}

// in returns the error of a call, nil for none.
func in(call string, err error) error {
	if err == nil {
		return nil
	}
	return &callError{call, err}
}

// Error returns what went wrong.
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
