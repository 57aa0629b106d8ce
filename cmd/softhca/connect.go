package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// connectFlags are the flags of a command that connects through the connection
// manager.
type connectFlags struct {
	*globals
	timeout time.Duration // for a message of the connection manager
	retries int
}

// The defaults of Linux's rdma_cm, which repeats a message after 4.3 s.
const (
	cmTimeout = 20 // code
	cmRetries = 15
)

func (f *connectFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.DurationVar(&f.timeout, "cm-timeout", ib.AckTimeout(cmTimeout), "client: repeat a message of the connection manager after this time; rounded up to a step of the protocol, 4.096 µs times a power of two")
	fs.Lookup("cm-timeout").DefValue = readable(ib.AckTimeout(cmTimeout))
	fs.IntVar(&f.retries, "cm-retries", cmRetries, "client: retries of a message of the connection manager, 1 to 15")
}

// opener returns the settings with which the command opens its adapter.
func (f *connectFlags) opener(cmd *cobra.Command) (adapter.Opener, error) {
	o := adapter.Opener{
		Addr: f.addr,
		Open: func(addr string) (*verbs.Context, func() error, error) {
			return f.open(cmd.ErrOrStderr(), func(c *verbs.Config) { c.Addr = addr })
		},
	}
	if fs := cmd.Flags(); !fs.Changed("cm-timeout") && !fs.Changed("cm-retries") {
		return o, nil
	}
	code, ok := timeoutCode(f.timeout)
	if !ok {
		return o, usagef("--cm-timeout %v: want more than 0 and at most %s", f.timeout, readable(ib.AckTimeout(31)))
	}
	if f.retries < 1 || f.retries > cmRetries {
		return o, usagef("--cm-retries %d: want 1 to %d", f.retries, cmRetries)
	}
	o.Response = adapter.Response{Timeout: code, Retries: uint8(f.retries)}
	return o, nil
}

// timeoutCode returns the 5-bit code of the shortest time that is at least d.
func timeoutCode(d time.Duration) (uint8, bool) {
	for code := uint8(1); code < 32; code++ {
		if d > 0 && ib.AckTimeout(code) >= d {
			return code, true
		}
	}
	return 0, false
}
