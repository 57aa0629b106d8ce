package demo

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// late contains the counters of probes that B drops before or after its queue pair is destroyed, which
// differ from run to run.
var late = map[string]bool{"drop_state": true, "drop_no_qp": true}

// counters is the scene that shows the counters of both adapters. It checks that no
// packet was lost or refused.
func (s *stage) counters(context.Context) error {
	s.title("Counters so far")
	a, err := s.a.Device.Counters()
	if err != nil {
		return err
	}
	b, err := s.b.Device.Counters()
	if err != nil {
		return err
	}
	s.line("%s", s.paint(bold, fmt.Sprintf("%-26s %10s %10s", "", "A", "B")))
	var lost, corrupt uint64
	for i := range a {
		if (a[i].Value != 0 || b[i].Value != 0) && !late[a[i].Name] {
			s.line("%-26s %10d %10d", a[i].Name, a[i].Value, b[i].Value)
		}
		switch a[i].Name {
		case "completer_retry_err": // a probe of a late peer is no retry
			lost += a[i].Value + b[i].Value
		case "drop_icrc_errors", "drop_malformed":
			corrupt += a[i].Value + b[i].Value
		}
	}
	s.line("")
	s.check(lost == 0 && corrupt == 0, "%d packets were lost, %d arrived damaged", lost, corrupt)
	return nil
}

const (
	bigBytes = 1 << 20 // bytes of a write
	bigDepth = 16      // outstanding writes
)

// throughput is the scene in which a new connection replaces the broken one and
// runs at full speed.
func (s *stage) throughput(ctx context.Context) error {
	if s.measure == 0 {
		return nil
	}
	s.title("Connect again and measure")
	s.aTrace.record(false)
	s.bTrace.record(false)
	if err := s.replace(ctx); err != nil {
		return err
	}
	s.text(0, "A failed connection cannot be repaired: both sides disconnect, and connect again with new queue pairs. A keeps "+
		"%d writes of 1 MiB in flight.", bigDepth)
	src, err := s.a.pd.RegMR(make([]byte, bigBytes), ib.AccessLocalWrite)
	if err != nil {
		return err
	}
	dst, err := s.b.pd.RegMR(make([]byte, bigBytes), rights)
	if err != nil {
		return err
	}
	seed := [32]byte{}
	fill := rand.NewChaCha8(seed)
	_, _ = fill.Read(src.Bytes()) // never fails
	wr := verbs.SendWR{
		Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: []verbs.SGE{src.SGE(0, bigBytes)},
		RemoteAddr: dst.Addr(), RKey: dst.RKey(),
	}
	before, err := s.a.retransmitted()
	if err != nil {
		return err
	}
	n, elapsed, err := s.a.writeFor(ctx, s.measure, wr)
	if err != nil {
		return err
	}
	after, err := s.a.retransmitted()
	if err != nil {
		return err
	}
	s.line("")
	gbps := float64(n) * bigBytes * 8 / elapsed.Seconds() / 1e9
	s.text(0, "%s  %d MiB in %.2f s, one queue pair; %d packets retransmitted",
		s.paint(bold, fmt.Sprintf("%.1f Gbit/s", gbps)), n, elapsed.Seconds(), after-before)
	s.sum.Throughput = &Throughput{Bytes: int64(n) * bigBytes, Seconds: elapsed.Seconds(), Gbps: gbps, Retransmits: after - before}
	if err := s.b.settle(); err != nil {
		return err
	}
	s.check(n > 0 && bytes.Equal(src.Bytes(), dst.Bytes()), "B's memory has the data of A")
	return nil
}

// replace ends the connection and creates a new one.
func (s *stage) replace(ctx context.Context) error {
	return inOrder(func() error { return s.hangUp(ctx) }, s.leave, func() error { return s.join(ctx) })
}

// writeFor keeps bigDepth requests outstanding for the time d, and returns the number
// of completed ones and the elapsed time.
func (n *node) writeFor(ctx context.Context, d time.Duration, wr verbs.SendWR) (done int, elapsed time.Duration, err error) {
	start := time.Now()
	posted := 0
	for posted < bigDepth {
		if err := n.qp.PostSend(wr); err != nil {
			return done, 0, err
		}
		posted++
	}
	for done < posted {
		wc, err := n.next(ctx)
		if err != nil {
			return done, 0, err
		}
		if wc.Status != ib.WCSuccess {
			return done, 0, fmt.Errorf("write %d: %v", done, wc.Status)
		}
		done++
		if time.Since(start) < d {
			if err := n.qp.PostSend(wr); err != nil {
				return done, 0, err
			}
			posted++
		}
	}
	return done, time.Since(start), nil
}

// retransmitted returns the number of packets that the adapter retransmitted.
func (n *node) retransmitted() (uint64, error) {
	counters, err := n.Device.Counters()
	if err != nil {
		return 0, err
	}
	for _, c := range counters {
		if c.Name == "retrans_pkts" {
			return c.Value, nil
		}
	}
	return 0, fmt.Errorf("adapter %s has no counter retrans_pkts", n.name)
}
