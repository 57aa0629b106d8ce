package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/accept"
	"github.com/softhca/softhca/cmd/softhca/internal/perf"
	"github.com/softhca/softhca/cmd/softhca/internal/text"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/wording"
	"github.com/softhca/softhca/verbs"
)

// perfFlags are the flags of perf.
type perfFlags struct {
	*globals
	plan     perf.Plan
	mtu      int
	port     uint16
	asJSON   bool
	local    bool
	child    bool
	forever  bool
	duration time.Duration
	timeout  time.Duration
	retry    int
	loss     float64  // --loss-ratio
	rate     string   // --static-rate
	limit    string   // --rate-limit
	alt      string   // --alt
	typ      string   // --type
	server   []string // --server-fault
}

// errLocalHost refuses the address of a server with --local.
var errLocalHost = usagef("--local runs both sides: no HOST")

// perfPort is the default TCP port of a perf server.
const perfPort = 18516

// perfLong is the help of perf.
const perfLong = `perf measures an operation between two adapters; perf cm measures connections. The operations are write, write-imm,
send, read, cmp-swap, fetch-add, atomic-write, flush and bind. Without HOST it is the server, which serves one client
and ends (with --forever, one client after another). With HOST it is the client, which measures. With --local it runs both sides, as two processes on 127.0.0.1
and 127.0.0.2, or on --addr and the address after it.

On Linux, packets between two sides on one host take shared memory. --wire udp, or SOFTHCA_WIRE=udp, measures the kernel's
UDP instead. Packets to other hosts always take UDP.

Give the same operation on both sides. The client's size, depth, number of queue pairs and path MTU apply to both sides;
the client sends them over a TCP connection. HOST is the server's address, for TCP and of its adapter.

Bandwidth counts payload, with --depth messages outstanding on each queue pair. Each post
has --post-list messages, of which only the last is signalled, as with the option --post_list of perftest. With --latency one message is in flight at a time. For write, write-imm and send it goes back and forth, and the latency
is half a round trip. Both sides busy-poll: for write the memory that the WRITE changes, otherwise the completion queue;
with --events they sleep until a completion instead. For read, the atomics, atomic-write, flush and bind the latency is the time from the post to
the completion.

flush moves no data: --size is the length of the flushed range. bind sends no packets either: it binds a memory window of --size bytes
and invalidates it, in turn, and counts both. The receiver checks a pattern in the last message of each queue pair. The exit code is 0 only if all requests succeeded
and the data was right. perf writes a line of progress to standard error each second, and the
result to standard output.

If one side fails, the other one ends too.

--type uc and ud do not retransmit: the rate is the sender's, and the result says how much arrived.
To a receiver on the same host, uc sends no faster than that reads. UD
sends datagrams of at most the path MTU.

With --type rd the queue pairs share one reliable datagram channel. It carries one message at a time,
and the queue pairs take turns: larger messages make it faster, more queue pairs or a greater depth do not. --static-rate paces the
channel; queue pairs of this type have no --rate-limit.

With --type xrc the client has initiators and the server targets. All receives come from one shared receive queue of the server. For the
latency of write, write-imm and send, a second connection carries the messages back.

With --window the server's memory gives the client no right. Each queue pair has a memory window of type 2, whose key the
client uses; it covers one message and gives one right. Messages of the server that go back do not use windows.

With --alt the queue pairs, or the channel that they share, have an alternate path, to which they migrate when the first
one fails; the server needs a second address too. As HOST, use an
address that works after the first path has failed. The result says when the queue pairs migrated and what they
retransmitted.

--fault injects faults on this side (with --local on the client's; --server-fault on the server's). The result says what
the rules did and how the protocol reacted. A failed connection is an error, which both sides report.`

// perfExamples are the examples of perf.
const perfExamples = `  softhca perf write --local
  softhca perf write --latency --local --json
  softhca perf send --latency --events --local              both sides sleep between messages
  softhca perf write --local --size 64 --post-list 1        each request posted alone and signalled
  softhca perf write --local --wire udp                     over the kernel's UDP instead of shared memory
  softhca perf write --local --fault 'drop nth=100'
  softhca perf write --local --fault 'drop p=1 dir=out after=1s' --timeout 20ms --retry 3
  softhca perf write --local --fault 'drop p=1 dir=out after=1s' --explain    how it looks on the wire
  softhca perf write --local --loss-ratio 0.01
  softhca perf write --local --static-rate 2.5
  softhca perf send --local --rate-limit 10M --size 4096
  softhca perf write --local --type uc --static-rate 2.5    counts lost messages
  softhca perf write --local --type rd --qps 4 --size 1M    queue pairs that share a channel, compared with:
  softhca perf write --local --type rc --qps 4 --size 1M
  softhca perf send --local --type xrc --qps 4              one shared receive queue for all queue pairs
  softhca perf write --local --window                       with the key of a memory window; compare without --window
  softhca perf bind --local --latency                       how long a bind, and an invalidation, of a window takes
  softhca perf write --local --alt 127.0.0.3 --timeout 10ms --fault 'drop path=primary after=1s'
  softhca perf read --addr 192.0.2.2                        a server, and on another host its client:
  softhca perf read --addr 192.0.2.1 --size 1M 192.0.2.2`

func newPerfCommand(g *globals) *cobra.Command {
	f := &perfFlags{globals: g}
	cmd := &cobra.Command{
		Use:     "perf OPERATION [HOST]",
		Short:   "Measure bandwidth and message rate, latency, or connections",
		Long:    perfLong,
		Example: perfExamples,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("perf needs an operation: %s", strings.Join(perf.OpNames(), ", "))
			}
			return maxArgs(2)(cmd, args)
		},
		ValidArgs: perf.OpNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args)
		},
	}
	f.register(cmd)
	cmd.AddCommand(newPerfCMCommand(g))
	return cmd
}

func (f *perfFlags) register(cmd *cobra.Command) {
	s := cmd.Flags()
	f.typ = perf.TypeNames()[0]
	addChoice(s, &f.typ, "type", "`service` of the queue pairs: "+wording.Or(perf.TypeNames()), perf.TypeNames()...)
	s.Var(byteSize{&f.plan.Size}, "size", "`bytes` of a message, such as 64 or 1M (default 64K, 1K for ud, 8 with --latency; atomics have 8)")
	s.IntVar(&f.plan.Depth, "depth", 0, "messages outstanding on each queue pair (default 128; 1 with --latency)")
	s.IntVar(&f.plan.PostList, "post-list", 0, "requests per post, the last of them signalled (default 1 from 16K on; below, a quarter of the depth, at most 32)")
	s.IntVar(&f.plan.QPs, "qps", 1, "queue pairs")
	s.IntVar(&f.mtu, "mtu", 0, "path MTU in `bytes`: 256, 512, 1024, 2048 or 4096 (default the largest of both ports)")
	s.DurationVar(&f.duration, "duration", 5*time.Second, "how long to measure")
	s.BoolVar(&f.plan.Latency, "latency", false, "measure the latency of single messages")
	s.BoolVar(&f.plan.Events, "events", false, "with --latency: both sides sleep until a completion instead of polling")
	s.DurationVar(&f.timeout, "timeout", ib.AckTimeout(perf.DefaultTimeout), "local ACK timeout; rounded up to a step of the protocol, 4.096 µs times a power of two")
	s.Lookup("timeout").DefValue = readable(ib.AckTimeout(perf.DefaultTimeout))
	s.IntVar(&f.retry, "retry", perf.DefaultRetry, "retries before RETRY_EXC_ERR, 0 to 7")
	s.Float64Var(&f.loss, "loss-ratio", 0, "with --local: measure without faults and with this `share` of packets lost each way, and print the ratio")
	s.StringVar(&f.rate, "static-rate", ib.RateMax.String(), "static rate of the paths in `Gb/s`: 2.5, 5, 10 and so on; counts whole IP packets")
	s.StringVar(&f.limit, "rate-limit", "", "maximum rate of each queue pair, in `bits/s` such as 10M or 2.5G; counts whole IP packets")
	s.StringVar(&f.alt, "alt", "", "`address` of an alternate path, in addition to --addr; both sides need one (with --local the server has the address after it)")
	s.StringArrayVar(&f.server, "server-fault", nil, "with --local: a `rule` for the server's side; --fault is for the client's")
	s.BoolVar(&f.plan.Window, "window", false, "the server gives its memory by memory windows of type 2, one for each queue pair")
	s.Uint16Var(&f.port, "port", perfPort, "TCP `port` of the server")
	s.BoolVar(&f.asJSON, "json", false, "print the result as one JSON object")
	s.BoolVar(&f.local, "local", false, "run both sides on this host")
	s.BoolVar(&f.forever, "forever", false, "as server, serve one client after another until interrupted")
	s.BoolVar(&f.child, "child", false, "as server, print the TCP address, and end with standard input")
	// The flag exists: the line above registers it.
	_ = s.MarkHidden("child")
}

func (f *perfFlags) run(cmd *cobra.Command, args []string) error {
	if err := refuseZero(cmd, "size", "depth", "post-list", "qps"); err != nil {
		return err
	}
	host, err := f.parse(cmd, args)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	switch {
	case f.local:
		err = f.runLocal(ctx, cmd)
	case host == "":
		err = f.serve(ctx, cmd)
	default:
		err = f.measure(ctx, cmd, net.JoinHostPort(host, strconv.Itoa(int(f.port))))
	}
	if err == nil || errors.As(err, new(*usageError)) {
		return err
	}
	return fmt.Errorf("perf %v: %w", f.plan.Op, err)
}

// parse turns flags and arguments into a plan.
func (f *perfFlags) parse(cmd *cobra.Command, args []string) (host string, err error) {
	if f.plan.Op, err = perf.ParseOp(args[0]); err != nil {
		return "", &usageError{err}
	}
	if f.plan.Type, err = perf.ParseType(f.typ); err != nil {
		return "", &usageError{fmt.Errorf("--%w", err)}
	}
	if f.mtu != 0 {
		mtu, ok := ib.MTUFor(f.mtu)
		if !ok || mtu.Bytes() != f.mtu {
			return "", usagef("--mtu %d: want 256, 512, 1024, 2048 or 4096", f.mtu)
		}
		f.plan.MTU = mtu
	}
	f.plan.Duration = f.duration
	if f.duration <= 0 {
		return "", usagef("--duration %v: want more than 0", f.duration)
	}
	if err := f.parseRetries(); err != nil {
		return "", err
	}
	if err := f.parseRates(); err != nil {
		return "", err
	}
	if err := f.parseAlt(len(args) == 2 || f.local); err != nil {
		return "", err
	}
	if err := f.plan.Check(); err != nil {
		return "", &usageError{err}
	}
	if len(args) == 2 {
		host = args[1]
	}
	if err := f.refuseIgnored(cmd, host); err != nil {
		return "", err
	}
	if !(f.loss >= 0 && f.loss < 1) || f.loss > 0 && f.otherFaults() {
		return "", usagef("--loss-ratio: want a share below 1, without other faults")
	}
	f.ownFaults = f.local || f.child || host != "" // the result has the statistics of the rules
	return host, checkRules("--server-fault", f.server)
}

// refuseIgnored refuses options that have no effect on this side. host is empty
// unless this side is the client.
func (f *perfFlags) refuseIgnored(cmd *cobra.Command, host string) error {
	switch {
	case f.local && host != "":
		return errLocalHost
	case f.local:
		return refuseGiven(cmd, "--local runs both sides, once", "forever", "port", "child")
	}
	if err := refuseGiven(cmd, "it is for --local", "loss-ratio", "server-fault"); err != nil {
		return err
	}
	if host != "" {
		return refuseGiven(cmd, "it is for the server", "forever", "child")
	}
	return refuseGiven(cmd, "it is for the client, with HOST, which sends it to the server",
		"depth", "duration", "events", "json", "latency", "mtu", "post-list", "qps", "rate-limit", "retry", "size", "static-rate", "timeout", "type", "window")
}

// otherFaults reports whether there are rules in addition to that of --loss-ratio.
func (f *perfFlags) otherFaults() bool {
	return len(f.faults)+len(f.server) > 0 || f.faultFile != "" || os.Getenv(verbs.FaultsEnv) != ""
}

// parseRetries converts --timeout and --retry to attributes.
func (f *perfFlags) parseRetries() error {
	if f.retry < 0 || f.retry > 7 {
		return usagef("--retry %d: want 0 to 7", f.retry)
	}
	if f.plan.Retry = f.retry; f.retry == 0 {
		f.plan.Retry = -1
	}
	code, ok := timeoutCode(f.timeout)
	if !ok {
		return usagef("--timeout %v: want more than 0 and at most %s", f.timeout, readable(ib.AckTimeout(31)))
	}
	f.plan.Timeout = code
	return nil
}

// parseRates parses --static-rate and --rate-limit.
func (f *perfFlags) parseRates() (err error) {
	if f.plan.Rate, err = ib.ParseRate(f.rate); err != nil {
		return usagef("--static-rate: %w", err)
	}
	if f.limit == "" {
		return nil
	}
	number, unit := f.limit, 1.0
	for suffix, times := range map[string]float64{"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9} {
		if n, ok := strings.CutSuffix(f.limit, suffix); ok {
			number, unit = n, times
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	if kbps := v * unit / 1000; err == nil && kbps >= 1 && kbps <= math.MaxUint32 {
		f.plan.Limit = uint32(kbps)
		return nil
	}
	return usagef("--rate-limit %s: want bits per second, 1k to 4294G, such as 10M", f.limit)
}

// parseAlt parses --alt, the second address of the adapter. At a client, the
// queue pairs use it as their alternate path.
func (f *perfFlags) parseAlt(client bool) error {
	if f.alt == "" {
		return nil
	}
	if f.local {
		f.addr = cmp.Or(f.addr, perfAddr)
	}
	alt, err := oneAddr("alt", f.alt)
	if err != nil {
		return err
	}
	own, err := netip.ParseAddr(f.addr)
	switch {
	case err != nil:
		return usagef("--alt needs one IP address as --addr, not %q", f.addr)
	case own.Is4() != alt.Is4():
		return usagef("--alt %v: want an address of the same family as %v", alt, own)
	case own == alt, f.local && (own.Next() == alt || alt.Next() == own):
		return usagef("--alt %v: want an address that is not in --addr %v", alt, own)
	}
	f.plan.Alt = client
	return nil
}

// openPerf opens the adapter with both addresses.
func (f *perfFlags) openPerf(cmd *cobra.Command) (*verbs.Context, func() error, error) {
	return f.open(cmd.ErrOrStderr(), func(c *verbs.Config) {
		if f.alt != "" {
			c.Addr += "," + f.alt
		}
	})
}

// measure runs the client and prints the result.
func (f *perfFlags) measure(ctx context.Context, cmd *cobra.Command, server string) error {
	sum, err := f.client(ctx, cmd, server)
	if failed := (*perf.Failure)(nil); f.asJSON && errors.As(err, &failed) {
		return errors.Join(err, json.NewEncoder(cmd.OutOrStdout()).Encode(failed))
	}
	if err != nil && !sum.Interrupted {
		return err
	}
	return errors.Join(err, printResult(cmd.OutOrStdout(), f.asJSON, sum))
}

// client measures. An interrupted measurement returns its result so far with the error.
func (f *perfFlags) client(ctx context.Context, cmd *cobra.Command, server string) (sum perf.Summary, err error) {
	dev, closer, err := f.openPerf(cmd)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, closer()) }()
	conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", server)
	if err != nil {
		return sum, fmt.Errorf("no server at %s: is it running, and its --port the same? %w", server, text.Bare(err))
	}
	return perf.Run(ctx, dev, conn, f.plan, func(i perf.Interval) {
		// A failure to print progress does not stop the measurement.
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%3.0f s  %12s  %20s\n", i.Elapsed.Seconds(), text.Rate(i.Gbps*1e9, "b/s"), text.Rate(i.Mpps*1e6, " messages/s"))
	})
}

// serve runs the server.
func (f *perfFlags) serve(ctx context.Context, cmd *cobra.Command) (err error) {
	dev, closer, err := f.openPerf(cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closer()) }()
	ctx, end := context.WithCancel(ctx)
	defer end()
	at := net.JoinHostPort("", strconv.Itoa(int(f.port)))
	if f.child {
		at = net.JoinHostPort(dev.QueryGID(0).Addr().String(), "0")
		go func() {
			_, _ = io.Copy(io.Discard, cmd.InOrStdin()) // wait for the end of standard input
			end()
		}()
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at)
	if err != nil {
		return err
	}
	clients := perf.Listen(l)
	defer context.AfterFunc(ctx, func() { _ = clients.Close() })()
	defer func() { _ = clients.Close() }()
	if f.child {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), l.Addr())
	} else {
		_, err = fmt.Fprintf(cmd.ErrOrStderr(), "serving %v on adapter %v, TCP %v\n", f.plan.Op, dev.QueryGID(0).Addr(), l.Addr())
	}
	if err != nil {
		return err
	}
	return f.accept(ctx, cmd, dev, clients)
}

// accept serves one client, or one after the other until ctx ends.
func (f *perfFlags) accept(ctx context.Context, cmd *cobra.Command, dev *verbs.Context, l *accept.Listener) error {
	for {
		conn, err := l.Accept()
		switch {
		case err != nil && ctx.Err() != nil && f.forever:
			return nil // --forever ends by interruption
		case err != nil && ctx.Err() != nil:
			return fmt.Errorf("wait for a client: %w", ctx.Err())
		case err != nil:
			return fmt.Errorf("wait for a client: %w", err)
		}
		err = perf.Serve(ctx, dev, conn, f.plan.Op)
		if f.child && errors.Is(err, perf.ErrPeerFailed) {
			return nil // the client reports the error
		}
		if !f.forever {
			return err
		}
		if err != nil && ctx.Err() == nil {
			// The next client may do better.
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "client %v: %v\n", conn.RemoteAddr(), err)
		}
	}
}
