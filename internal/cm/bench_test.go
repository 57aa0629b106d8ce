package cm

import (
	"net/netip"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
)

// wire connects two managers without delay: sent messages wait in a queue.
type wire struct {
	now   clock.Instant
	ends  [2]*Manager
	addrs [2]netip.Addr
	queue []sentMAD
	conn  *Conn // the passive one
	up    int   // sides that are established
}

type sentMAD struct {
	to  int
	mad mad.MAD
}

func newWire(tb testing.TB) *wire {
	w := &wire{addrs: [2]netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}}
	for i := range w.ends {
		id := uint32(i)
		w.ends[i] = New(Config{
			GUID: uint64(i), MTU: ib.MTU4096, Addrs: w.addrs[i : i+1],
			Rand: func() uint32 { id += 2; return id },
			TID:  func(id uint32) uint64 { return uint64(id) },
			Send: func(_ clock.Instant, _ gsi.Address, m *mad.MAD) error {
				w.queue = append(w.queue, sentMAD{1 - i, *m})
				return nil
			},
		})
	}
	if _, err := w.ends[1].Listen(service, w.onEvent); err != nil {
		tb.Fatal(err)
	}
	return w
}

func (w *wire) onEvent(now clock.Instant, c *Conn, e *Event) {
	var err error
	switch e.Type {
	case REQReceived:
		w.conn = c
		err = c.SendREP(now, &REPParams{QPN: 3})
	case REPReceived:
		w.up++
		err = c.SendRTU(now, nil)
	case RTUReceived:
		w.up++
	case DREQReceived:
		err = c.SendDREP(now, nil)
	}
	if err != nil {
		panic(err)
	}
}

// flow delivers messages until none is left.
func (w *wire) flow() {
	for len(w.queue) > 0 {
		p := w.queue[0]
		w.queue = w.queue[:copy(w.queue, w.queue[1:])]
		from := gsi.Address{Local: w.addrs[p.to], Remote: w.addrs[1-p.to], QPN: 1, PKey: ib.PKeyDefault}
		w.ends[p.to].Receive(w.now, &gsi.Received{MAD: &p.mad, From: from})
	}
}

// cycle sets a connection up and tears it down: five messages.
func (w *wire) cycle(tb testing.TB) {
	w.up = 0
	c := w.ends[0].NewConn(w.onEvent)
	p := REQParams{Service: service, QPN: 2, Path: Path{Local: w.addrs[0], Remote: w.addrs[1], MTU: ib.MTU1024}}
	must.Do(tb, c.SendREQ(w.now, &p))
	w.flow()
	if w.up != 2 {
		tb.Fatalf("%d sides are established", w.up)
	}
	must.Do(tb, c.SendDREQ(w.now, nil))
	w.flow()
	c.Destroy(w.now)
	w.conn.Destroy(w.now)
	w.now = max(w.ends[0].Deadline(), w.ends[1].Deadline())
	w.ends[0].Advance(w.now)
	w.ends[1].Advance(w.now)
}

// BenchmarkConnect measures a whole life of a connection on both sides: five
// messages, and TIMEWAIT.
func BenchmarkConnect(b *testing.B) {
	w := newWire(b)
	b.ReportAllocs()
	for b.Loop() {
		w.cycle(b)
	}
}

// BenchmarkRefused measures a REQ for a service without a listener.
func BenchmarkRefused(b *testing.B) {
	w := newWire(b)
	d := build(mad.AttrREQ, 1, (&rig{us: w.addrs[1], peer: w.addrs[0]}).req())
	w.ends[1].listeners[service].Close()
	r := &gsi.Received{MAD: d, From: gsi.Address{Local: w.addrs[1], Remote: w.addrs[0], QPN: 1}}
	b.ReportAllocs()
	for b.Loop() {
		w.queue = w.queue[:0]
		w.ends[1].Receive(0, r)
	}
}

// TestCycleLeavesNothing: after many lives the managers are as empty as before
// the first.
func TestC6_CyclesLeaveNothing(t *testing.T) {
	w := newWire(t)
	const cycles = 20_000
	w.cycle(t)
	before := heapBytes()
	for range cycles {
		w.cycle(t)
	}
	if grown := int64(heapBytes()) - int64(before); grown > 64<<10 {
		t.Errorf("%d bytes more after %d cycles", grown, cycles)
	}
	for _, m := range w.ends {
		must.Do(t, empty(m))
	}
}
