package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/cmd/softhca/internal/text"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// Open opens an adapter on an IP address. trace is its Config.Trace.
type Open func(addr string, trace func(*verbs.TraceRecord)) (hca *verbs.Context, closer func() error, err error)

// ProbeAfter is the Config.ProbeAfter of both adapters. It is long, so that the output is the
// same on a busy host, where an adapter waits for a processor: only lost packets are
// retransmitted.
const ProbeAfter = 500 * time.Millisecond

// Options are the options of a demonstration.
type Options struct {
	AddrA, AddrB string
	OpenA, OpenB Open
	Out          io.Writer
	Color        bool
	Width        int           // columns of the text; 0: what fits most terminals
	Measure      time.Duration // how long to measure the throughput; 0: not at all
	Summary      *Summary      // receives the scenes and the throughput; may be nil
}

// ErrNotVerified means that a check of the demonstration failed.
var ErrNotVerified = errors.New("the result differs from the one that the protocol requires")

// stage is the demonstration while it runs.
type stage struct {
	*printer
	measure        time.Duration
	space          rdmacm.PortSpace // of the connections; 0: TCP
	mtu            ib.MTU           // of the connection
	a, b           *node
	aTrace, bTrace recorder
}

// Run shows everything. It returns an error if anything failed or was not verified. Each
// wait is limited: Run takes seconds at most, in addition to Measure.
func Run(ctx context.Context, o Options) error {
	s := &stage{printer: newPrinter(&o), measure: o.Measure}
	return s.play(ctx, &o, "softhca: two RDMA adapters communicate by RoCEv2 on UDP port 4791", "softhca run --help, softhca perf --help, softhca states",
		s.adapters, s.connect, s.send, s.write, s.read, s.atomics, s.atomicWrite, s.wrongKey, s.window, s.xrc, s.counters, s.throughput, s.disconnect)
}

// play opens both adapters, and shows scenes until one returns an error. next is what a reader may
// try then.
func (s *stage) play(ctx context.Context, o *Options, title, next string, scenes ...func(context.Context) error) (err error) {
	s.printer.write(s.paint(bold, title) + "\n")
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.open(o); err != nil {
		return err
	}
	for _, scene := range scenes {
		if err := scene(ctx); err != nil {
			return err
		}
	}
	if s.failed > 0 {
		return fmt.Errorf("%d checks failed: %w", s.failed, ErrNotVerified)
	}
	s.printer.write("\n" + s.paint(green, "Everything was verified.") + "\nNext: " + next + "\n")
	return s.err
}

// open opens both adapters, and B listens.
func (s *stage) open(o *Options) (err error) {
	if s.a, err = open("A", o.AddrA, 0x11, traced(o.OpenA, s.aTrace.add)); err != nil {
		return err
	}
	if s.b, err = open("B", o.AddrB, 0x77, traced(o.OpenB, s.bTrace.add)); err != nil {
		return err
	}
	for _, n := range [...]*node{s.a, s.b} {
		n.space = cmp.Or(s.space, rdmacm.TCP)
	}
	return s.b.listen()
}

// close closes the adapters that are open.
func (s *stage) close() error {
	var errs []error
	for _, n := range [...]*node{s.b, s.a} {
		if n != nil {
			errs = append(errs, n.Close())
		}
	}
	return errors.Join(errs...)
}

// traced returns an Open with its trace.
func traced(open Open, trace func(*verbs.TraceRecord)) adapter.Open {
	return func(addr string) (*verbs.Context, func() error, error) { return open(addr, trace) }
}

// adapters is the scene that presents both adapters.
func (s *stage) adapters(context.Context) error {
	s.title("Open two adapters")
	for _, n := range [...]*node{s.a, s.b} {
		port, err := n.Device.QueryPort()
		if err != nil {
			return err
		}
		s.text(3, "%s  %s  port %v, %s, MTU %d, GSO %s, GRO %s, ICRC check %s", s.paint(bold, n.name), n.addr, port.State,
			port.Transport, port.ActiveMTU.Bytes(), segments(port.MaxSegments), text.Yes(port.GRO), port.Verification)
		s.text(3, "   %d bytes of memory at %#x, R_Key %#08x", n.mr.Len(), n.mr.Addr(), uint32(n.mr.RKey()))
	}
	return nil
}

// told shows the events that the programs got.
func (s *stage) told() {
	for _, n := range [...]*node{s.a, s.b} {
		var names []string
		for _, t := range n.told {
			names = append(names, strings.TrimPrefix(t.String(), "RDMA_CM_EVENT_"))
		}
		s.check(len(names) > 0, "%s got the events %s", n.name, strings.Join(names, ", "))
		n.told = nil
	}
}

func segments(n int) string {
	if n > 1 {
		return fmt.Sprintf("%d packets", n)
	}
	return "no"
}
