package text

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
)

func TestBare(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	unknown := &net.DNSError{Err: "no such host", Name: "nowhere"}
	other := errors.New("other")
	for _, c := range []struct{ err, want error }{
		{refused, syscall.ECONNREFUSED}, {fmt.Errorf("reach it: %w", refused), syscall.ECONNREFUSED},
		{&net.OpError{Op: "dial", Err: unknown}, unknown}, {other, other}, {nil, nil},
	} {
		if got := Bare(c.err); got != c.want {
			t.Errorf("the cause of %v is %v, want %v", c.err, got, c.want)
		}
	}
}
