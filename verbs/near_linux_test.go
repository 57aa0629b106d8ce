//go:build !portable

package verbs

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/roce"
)

// wires are the ways on which tests of both run.
var wires = []Wire{WireUDP, WireAuto}

// newWirePair returns two connected endpoints. With WireAuto their processes have met.
func newWirePair(t testing.TB, w Wire, a, b Config, change func(*QPAttr)) (x, y *endpoint) {
	t.Helper()
	a.Wire, b.Wire, a.Addr, b.Addr = w, w, loopback(), loopback()
	x, y = newEndpoint(t, a, ib.RC), newEndpoint(t, b, ib.RC)
	connect(t, x, y, change)
	if w == WireAuto {
		for _, e := range []*endpoint{x, y} {
			other := y
			if e == y {
				other = x
			}
			e.meet(t, other)
		}
	}
	return x, y
}

// meet writes to another endpoint until its packets take shared memory.
func (e *endpoint) meet(t testing.TB, other *endpoint) {
	t.Helper()
	for end := time.Now().Add(waitLimit); e.counter(t, "near_sent_packets") == 0; {
		must.Do(t, e.qp.PostSend(e.write(1, 8, other)))
		e.wait(t, 1)
		if time.Now().After(end) {
			t.Fatal("no packets take shared memory")
		}
	}
	other.settle(t)
}

// TestNearInOneProcess opens two adapters that ask for nothing in one process, on two addresses and on one. Packets between
// them take shared memory, and those of an adapter to itself do not.
func TestNearInOneProcess(t *testing.T) {
	for name, two := range map[string]bool{"two addresses": true, "one address": false} {
		t.Run(name, func(t *testing.T) {
			first := loopback()
			second := first
			if two {
				second = loopback()
			}
			x, y := newEndpoint(t, Config{Addr: first}, ib.RC), newEndpoint(t, Config{Addr: second}, ib.RC)
			connect(t, x, y, nil)
			x.meet(t, y)
			y.meet(t, x)
			a, b := x.sibling(t, ib.RC), x.sibling(t, ib.RC)
			connect(t, a, b, nil)
			sent := x.counter(t, "near_sent_packets")
			for range 100 {
				must.Do(t, a.qp.PostSend(a.write(1, 8, b)))
				a.wait(t, 1)
			}
			if n := x.counter(t, "near_sent_packets"); n > sent+1 { // an acknowledgement to y may be late
				t.Errorf("%d packets of an adapter to itself take shared memory", n-sent)
			}
		})
	}
}

// outcome is what a transfer with faults leads to. Both ways must have the same.
type outcome struct {
	Status    ib.WCStatus
	Applied   uint64 // by the rule
	Damaged   bool   // the received data differs
	BadICRCs  uint64
	Malformed uint64
	RNRs      uint64
}

// TestFaultsOnBothWays sends packets with a fault through shared memory and by UDP, with the same
// outcome.
func TestFaultsOnBothWays(t *testing.T) {
	hopeless := func(a *QPAttr) { a.RetryCnt = 4 }
	for _, c := range []struct {
		rule    string
		at      int    // the endpoint with the rule
		counter string // not 0 afterwards, at the receiver
		want    outcome
		change  func(*QPAttr)
	}{
		{rule: "drop nth=3 op=RDMA_WRITE_MIDDLE", counter: "out_of_seq_request", want: outcome{Applied: 1}},
		{rule: "drop nth=3 op=RDMA_WRITE_MIDDLE dir=in", at: 1, counter: "out_of_seq_request", want: outcome{Applied: 1}},
		{rule: "drop op=RDMA_WRITE_LAST", want: outcome{Status: ib.WCRetryExcErr, Damaged: true}, change: hopeless},
		{rule: "dup nth=5 op=RDMA_WRITE_MIDDLE", counter: "duplicate_request", want: outcome{Applied: 1}},
		{rule: "dup nth=5 op=RDMA_WRITE_MIDDLE dir=in", at: 1, counter: "duplicate_request", want: outcome{Applied: 1}},
		{rule: "delay 20ms nth=4 op=RDMA_WRITE_MIDDLE", counter: "out_of_seq_request", want: outcome{Applied: 1}},
		{rule: "delay 20ms nth=4 op=RDMA_WRITE_MIDDLE dir=in", at: 1, counter: "out_of_seq_request", want: outcome{Applied: 1}},
		{rule: "corrupt byte=20 nth=2 op=RDMA_WRITE_MIDDLE", want: outcome{Applied: 1, BadICRCs: 1}},
		{rule: "corrupt byte=20 nth=2 op=RDMA_WRITE_MIDDLE dir=in", at: 1, want: outcome{Applied: 1, BadICRCs: 1}},
		{rule: "corrupt byte=0 xor=128 nth=2 op=RDMA_WRITE_MIDDLE", want: outcome{Applied: 1, Malformed: 1}},
		{rule: "corrupt byte=0 xor=128 nth=2 op=RDMA_WRITE_MIDDLE dir=in", at: 1, want: outcome{Applied: 1, Malformed: 1}},
		{rule: "corrupt byte=20 reseal nth=2 op=RDMA_WRITE_MIDDLE", want: outcome{Applied: 1, Damaged: true}},
		{rule: "corrupt byte=20 reseal nth=2 op=RDMA_WRITE_MIDDLE dir=in", at: 1, want: outcome{Applied: 1, Damaged: true}},
		{rule: "truncate 40 nth=2 op=RDMA_WRITE_MIDDLE", want: outcome{Applied: 1, BadICRCs: 1}},
		{rule: "truncate 41 nth=2 op=RDMA_WRITE_MIDDLE dir=in", at: 1, want: outcome{Applied: 1, Malformed: 1}},
		{rule: "reorder nth=4 op=RDMA_WRITE_MIDDLE", counter: "out_of_seq_request", want: outcome{Applied: 1}},
		{rule: "reorder nth=4 op=RDMA_WRITE_MIDDLE dir=in", at: 1, counter: "out_of_seq_request", want: outcome{Applied: 1}},
		{rule: "nak REMOTE_ACCESS op=RDMA_WRITE_LAST", at: 1, want: outcome{Status: ib.WCRemAccessErr, Applied: 1, Damaged: true}},
	} {
		for _, w := range wires {
			t.Run(w.String()+": "+c.rule, func(t *testing.T) {
				cfg := [2]Config{}
				cfg[c.at].Faults = Faults{Rules: c.rule, Seed: 1}
				a, b := newWirePair(t, w, cfg[0], cfg[1], func(q *QPAttr) {
					brief(q)
					if c.change != nil {
						c.change(q)
					}
				})
				got := a.faulty(t, b, w)
				if c.want.Status == ib.WCRetryExcErr { // how many retries are hit depends on the time
					if got.Applied == 0 {
						t.Errorf("the rule acted on %d packets", got.Applied)
					}
					got.Applied = 0
				}
				if got != c.want {
					t.Errorf("the outcome is %+v, want %+v", got, c.want)
				}
				if c.counter != "" && b.counter(t, c.counter) == 0 {
					t.Errorf("the receiver counts no %s", c.counter)
				}
			})
		}
	}
}

// faulty writes 64 packets, under fault rules of either endpoint, and returns the outcome.
func (e *endpoint) faulty(t *testing.T, to *endpoint, w Wire) (o outcome) {
	t.Helper()
	const size = 64 << 10
	for i := range e.mr.Bytes()[:size] {
		e.mr.Bytes()[i] = byte(i*7>>3) | 1
	}
	before := e.counter(t, "near_sent_packets")
	must.Do(t, e.qp.PostSend(e.write(1, size, to)))
	o.Status = e.take(t, 1)[0].Status
	if n := e.counter(t, "near_sent_packets") - before; w == WireAuto && n < 62 || w == WireUDP && n != 0 {
		t.Errorf("%d packets took shared memory", n)
	}
	to.settle(t)
	o.Damaged = !bytes.Equal(e.mr.Bytes()[:size], to.mr.Bytes()[:size])
	for _, at := range []*endpoint{e, to} {
		for _, s := range at.ctx.FaultStats() {
			o.Applied += s.Applied
		}
	}
	o.BadICRCs, o.Malformed, o.RNRs = to.counter(t, "drop_icrc_errors"), to.counter(t, "drop_malformed"), e.counter(t, "rcvd_rnr_err")
	return o
}

// TestCaptureOnBothWays captures a connection at both of its ends. The captures have all packets, on
// whichever way they went, and each has a correct ICRC.
func TestCaptureOnBothWays(t *testing.T) {
	for _, w := range wires {
		t.Run(w.String(), func(t *testing.T) {
			var files [2]bytes.Buffer
			a, b := newWirePair(t, w, Config{Capture: &files[0]}, Config{Capture: &files[1]}, nil)
			must.Do(t, a.qp.PostSend(a.write(1, 256<<10, b)))
			a.wait(t, 1)
			read := b.write(2, 100<<10, a)
			read.Opcode = ib.WRRDMARead
			must.Do(t, b.qp.PostSend(read))
			b.wait(t, 1)
			var sent, received [2]uint64
			for i, e := range []*endpoint{a, b} {
				sent[i], received[i] = e.counter(t, "sent_pkts"), e.counter(t, "rcvd_pkts")
				must.Do(t, e.ctx.Close())
				if out, in := checkCapture(t, &files[i]); out != sent[i] || in != received[i] {
					t.Errorf("the capture of side %d has %d packets sent and %d received, and the adapter counts %d and %d", i, out, in, sent[i], received[i])
				}
			}
		})
	}
}

// checkCapture checks the ICRC of each packet of a capture, and returns their numbers.
func checkCapture(t *testing.T, file io.Reader) (out, in uint64) {
	t.Helper()
	r, err := pcapfile.NewReader(file)
	must.Do(t, err)
	for {
		p, err := r.Next()
		if err == io.EOF {
			return out, in
		}
		must.Do(t, err)
		var h roce.Packet
		fault := h.Parse(p.Payload)
		if icrc, ok := roce.HeaderICRC(p.IP, p.UDP, p.Payload); !ok || fault != roce.FaultNone || h.ICRC != icrc {
			t.Fatalf("packet %d has ICRC %#x, want %#x (%v)", p.Record, h.ICRC, icrc, fault)
		}
		if p.Direction == pcapfile.Outbound {
			out++
		} else {
			in++
		}
	}
}
