package rdmacm

import (
	"fmt"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// Option changes how Listen and Dial do their work.
type Option func(*options)

// options are what the options change.
type options struct {
	cfg     *verbs.Config
	backlog int
	buffers int
	size    int
	linger  time.Duration
}

// Bounds of the buffers of a Conn. With fewer than four, credits could not be
// given back without keeping data waiting.
const (
	minBuffers = 4
	maxBuffers = 4096
	maxSize    = 1 << 20
)

func newOptions(opts []Option) (*options, error) {
	o := &options{backlog: 128, buffers: 16, size: 32 << 10, linger: 5 * time.Second}
	for _, f := range opts {
		f(o)
	}
	if o.buffers < minBuffers || o.buffers > maxBuffers || o.size < 1 || o.size > maxSize {
		return nil, fmt.Errorf("%d buffers (%d to %d) of %d bytes (1 to %d): %w", o.buffers, minBuffers, maxBuffers, o.size, maxSize, ib.EINVAL)
	}
	return o, nil
}

// WithConfig has the package's Listen and Dial open this adapter. Without it,
// Listen takes the address that it listens on, and Dial the one from which the
// host would send to the peer; for a peer on a loopback address one of
// 127.0.0.0/8 that is free. It does nothing to the methods of a Manager.
func WithConfig(cfg verbs.Config) Option { return func(o *options) { o.cfg = &cfg } }

// WithBacklog bounds the requests that wait for Accept, and apart from them the
// connections that are accepted and not established, of which the oldest gives
// way to a new one; 128 without it.
func WithBacklog(n int) Option { return func(o *options) { o.backlog = n } }

// WithBuffers sets how many messages of how many bytes a Conn can have waiting
// in each direction: 16 of 32 KiB without it, which is 1 MiB of memory. As both
// sides sleep when there is nothing to do, what is under way bounds the
// throughput: more and larger buffers make long streams faster. Both sides
// choose for themselves.
func WithBuffers(count, bytes int) Option {
	return func(o *options) { o.buffers, o.size = count, bytes }
}

// WithLinger sets how long Close waits for the peer to take what was written
// and to agree to the end: 5 seconds without it.
func WithLinger(d time.Duration) Option { return func(o *options) { o.linger = d } }
