package stream

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// Option configures Listen, ListenOn, Dial and DialOn.
type Option func(*options)

// options holds the values of the options, and what the address of Listen or Dial names.
type options struct {
	addrs   []netip.AddrPort // at least one
	cfg     *verbs.Config
	backlog int
	buffers int
	size    int
	linger  time.Duration
}

// Bounds of the buffers of a Conn. With fewer than four, returning credits would delay
// data.
const (
	minBuffers = 4
	maxBuffers = 4096
	maxSize    = 1 << 20
)

// maxBacklog is the largest backlog, as of rdmacm.ID.Listen.
const maxBacklog = 1024

func newOptions(ctx context.Context, addr string, opts []Option) (o *options, err error) {
	o = &options{backlog: 128, buffers: 16, size: 32 << 10, linger: 5 * time.Second}
	for _, f := range opts {
		f(o)
	}
	if o.backlog <= 0 || o.backlog > maxBacklog {
		o.backlog = maxBacklog
	}
	if o.buffers < minBuffers || o.buffers > maxBuffers || o.size < 1 || o.size > maxSize {
		return nil, fmt.Errorf("%d buffers (%d to %d) of %d bytes (1 to %d): %w", o.buffers, minBuffers, maxBuffers, o.size, maxSize, ib.EINVAL)
	}
	o.addrs, err = lookup(ctx, addr)
	return o, err
}

// WithConfig makes Listen and Dial open this adapter. Without it, Listen uses the
// address that it listens on, and Dial the address from which the host would send to the
// peer; for a peer on a loopback address, a free one of 127.0.0.0/8. It has no effect on
// ListenOn and DialOn.
func WithConfig(cfg verbs.Config) Option { return func(o *options) { o.cfg = &cfg } }

// WithBacklog sets the maximum number of requests that wait for Accept, at most 1024; 0 or
// less stands for 1024. It also bounds the connections that are accepted and not
// established, each of which already has its buffers: a new one replaces the oldest one of
// the address that has the most. The default is 128.
func WithBacklog(n int) Option { return func(o *options) { o.backlog = n } }

// WithBuffers sets the number and size of the messages that a Conn can have in flight
// in each direction. The default is 16 of 32 KiB, which takes 1 MiB of memory. The
// bytes in flight bound the throughput, because both sides sleep when they have nothing
// to do: more and larger buffers make long streams faster. Each side chooses its own.
// Listen and Dial fail with EINVAL unless count is 4 to 4096 and bytes is 1 to 1 MiB.
func WithBuffers(count, bytes int) Option {
	return func(o *options) { o.buffers, o.size = count, bytes }
}

// WithLinger sets how long Close waits until the peer's adapter has acknowledged the written
// data and the peer has disconnected. With 0, Close does not wait, and data may be lost. The
// default is 5 seconds.
func WithLinger(d time.Duration) Option { return func(o *options) { o.linger = d } }
