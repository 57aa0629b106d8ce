package hca_test

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// perfAgent registers an agent that no adapter has by itself.
func perfAgent(t testing.TB, h *hca.HCA, receive func(clock.Instant, *gsi.Received) bool) *gsi.Agent {
	t.Helper()
	c := gsi.AgentConfig{Class: mad.ClassPerf, Version: 1, Receive: receive}
	if receive != nil {
		c.Methods = []mad.Method{mad.MethodSend}
	}
	a, err := h.GSI().Register(c)
	rig.Must(t, err)
	return a
}

// perfMAD makes a MAD of perfAgent's class.
func perfMAD(method mad.Method, tid uint64) *mad.MAD {
	m := new(mad.MAD)
	m.PutHeader(mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassPerf, ClassVersion: 1, Method: method, TID: tid, AttrID: 0x4711})
	return m
}

// TestC1_BetweenAdapters shows that every adapter has QP1: a message reaches
// the agent of its class, and a request without an agent is answered, without
// any queue pair of a program.
func TestC1_BetweenAdapters(t *testing.T) {
	r := rig.New(t, ib.RC, rig.Cap)
	a, b := r.Sides[0], r.Sides[1]
	var got []uint64
	from := perfAgent(t, a.HCA, nil)
	perfAgent(t, b.HCA, func(_ clock.Instant, m *gsi.Received) bool {
		got = append(got, m.MAD.Header().TID)
		return true
	})
	rig.Must(t, from.Send(r.Now, gsi.Address{Remote: b.Addr}, perfMAD(mad.MethodSend, 77)))
	var status []mad.Status
	_, err := from.Request(r.Now, gsi.Address{Remote: b.Addr}, perfMAD(mad.MethodGet, 78), gsi.Retry{Timeout: time.Second},
		func(_ clock.Instant, m *gsi.Received, err error) {
			rig.Must(t, err)
			status = append(status, m.MAD.Header().Status)
		})
	rig.Must(t, err)
	if s := a.HCA.Single(); !s.Pending() || s.Deadline() != r.Now.Add(time.Second) {
		t.Errorf("with MADs to send: pending %v, deadline %v", s.Pending(), s.Deadline())
	}
	r.Run(time.Minute, func() bool { return len(status) > 0 })
	if len(got) != 1 || got[0] != 77 || len(status) != 1 || status[0] != mad.StatusUnsupportedAttribute {
		t.Errorf("the agent gets %x, the answers have %v", got, status)
	}
	for i, s := range r.Sides {
		if c := s.HCA.Counters(); c.SentPkts != uint64(2-i) || c.RcvdPkts != uint64(1+i) {
			t.Errorf("side %d counts %d packets sent and %d received", i, c.SentPkts, c.RcvdPkts)
		}
		if s.HCA.Single().Pending() || s.HCA.Single().Deadline() != clock.Never {
			t.Errorf("side %d does not come to rest", i)
		}
	}
}

// TestC12_TimersOfQP1 shows that the shard's timers are QP1's too.
func TestC12_TimersOfQP1(t *testing.T) {
	r := rig.New(t, ib.RC, rig.Cap)
	r.Drop = func(int, *roce.Packet) bool { return true }
	var ends []clock.Instant
	a := perfAgent(t, r.Sides[0].HCA, nil)
	_, err := a.Request(r.Now, gsi.Address{Remote: r.Sides[1].Addr}, perfMAD(mad.MethodGet, 1), gsi.Retry{Timeout: time.Second, Retries: 3},
		func(now clock.Instant, _ *gsi.Received, _ error) { ends = append(ends, now) })
	rig.Must(t, err)
	start := r.Now
	r.Run(time.Hour, func() bool { return len(ends) > 0 })
	if n := r.Sides[0].HCA.Counters().SentPkts; len(ends) != 1 || ends[0].Sub(start).Truncate(time.Millisecond) != 4*time.Second || n != 4 {
		t.Errorf("the request ends at %v after %d packets", ends, n)
	}
}

// TestC1_QP1ByHand shows a queue pair of type GSI in the place of the
// adapter's own QP1: it gets the packets, and what agents send waits for its
// end, without keeping the adapter awake.
func TestC1_QP1ByHand(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{Type: ib.GSI})
	got := 0
	a := perfAgent(t, s.HCA, func(clock.Instant, *gsi.Received) bool { got++; return true })
	packet := s.Packet(roce.UDSendOnly, 0, perfMAD(mad.MethodSend, 1)[:])
	s.Recv(1, 40+256)
	s.Inject(packet)
	s.WantWCs("a MAD for the queue pair", rig.WC(1, ib.WCSuccess))
	ended := 0
	_, err := a.Request(s.Now, gsi.Address{Remote: s.Peer}, perfMAD(mad.MethodGet, 2), gsi.Retry{Timeout: time.Second},
		func(_ clock.Instant, _ *gsi.Received, err error) { ended++ })
	rig.Must(t, err)
	if s.HCA.Single().Pending() || got != 0 {
		t.Errorf("with QP1 replaced: pending %v, the agent gets %d", s.HCA.Single().Pending(), got)
	}
	s.WantPackets("with QP1 replaced", s.Pass(2*time.Second))
	if ended != 1 {
		t.Errorf("the request ends %d times", ended)
	}
	s.HCA.DestroyQP(s.PD, s.QP)
	if out := s.Out(); len(out) != 1 || out[0].DETH.SrcQP != ib.QPNGSI {
		t.Errorf("afterwards %d packets leave", len(out))
	}
	s.Inject(packet)
	if got != 1 {
		t.Errorf("afterwards the agent gets %d", got)
	}
}

// TestC12_TurnsWithQueuePairs gives QP1 and a queue pair more to send than any
// batch holds: with any batch size, neither is missing from two batches in a
// row, and QP1 gets at most half of the bytes.
func TestC12_TurnsWithQueuePairs(t *testing.T) {
	for _, size := range []int{rig.MaxPacket, 2 * rig.MaxPacket, 4 * rig.MaxPacket, 256 << 10} {
		r := rig.New(t, ib.UC, ib.QPCap{MaxSendWR: 2048, MaxSendSGE: 1}).Connect(ib.MTU4096)
		side := r.Sides[0]
		side.Batch = fabric.NewBatch(size, fabric.Caps{MaxSegments: 64, MaxRunBytes: 65000})
		a := perfAgent(t, side.HCA, nil)
		wr := ib.SendWR{
			Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{side.SGE(0, 1<<20)},
			RemoteAddr: r.Sides[1].MR.Addr(), RKey: r.Sides[1].MR.RKey(),
		}
		bytes, absent := map[roce.Service]int{}, map[roce.Service]int{}
		for n := range 200 {
			for a.Send(r.Now, gsi.Address{Remote: r.Sides[1].Addr}, perfMAD(mad.MethodSend, 1)) == nil {
			}
			r.Post(0, wr)
			if !side.HCA.Single().Transmit(r.Now, side.Batch) {
				t.Fatalf("batches of %d bytes: nothing is left to send", size)
			}
			absent[roce.ServiceUD]++
			absent[roce.ServiceUC]++
			for _, p := range packetsOf(t, side.Batch) {
				bytes[p.Info.Service] += roce.Size(p.BTH.Opcode, len(p.Payload))
				absent[p.Info.Service] = 0
			}
			side.Batch.Reset()
			if absent[roce.ServiceUD] > 1 || absent[roce.ServiceUC] > 1 {
				t.Fatalf("batches of %d bytes: after %d, %v batches in a row were without", size, n+1, absent)
			}
		}
		if bytes[roce.ServiceUD] > bytes[roce.ServiceUC] {
			t.Errorf("batches of %d bytes: QP1 sends %d bytes, the queue pair %d", size, bytes[roce.ServiceUD], bytes[roce.ServiceUC])
		}
	}
}

// packetsOf parses what is in a batch.
func packetsOf(t testing.TB, b *fabric.Batch) (out []roce.Packet) {
	t.Helper()
	for _, run := range b.Pending() {
		for k := range run.Count {
			var p roce.Packet
			if f := p.Parse(run.Segment(k)); f != roce.FaultNone {
				t.Fatalf("what leaves is no packet: %v", f)
			}
			out = append(out, p)
		}
	}
	return out
}

// TestC12_FloodAndData sends a flood of requests to QP1, with right ICRCs,
// while a connection moves data: each message is acknowledged at once, and the
// adapter's memory does not grow.
func TestC12_FloodAndData(t *testing.T) {
	f := rig.NewFlight(t, ib.WRRDMAWrite, 4096)
	f.Trip()
	victim := f.Sides[1]
	p := roce.Packet{
		BTH:     roce.BTH{Opcode: roce.UDSendOnly, PKey: ib.PKeyDefault, DestQP: ib.QPNGSI},
		DETH:    roce.DETH{QKey: ib.QKeyGSI, SrcQP: ib.QPNGSI},
		Payload: perfMAD(mad.MethodGet, 1)[:],
	}
	b := make([]byte, roce.Size(roce.UDSendOnly, mad.Size))
	p.Build(b)
	d := fabric.Datagram{Bytes: b, Src: netip.MustParseAddr("127.0.0.9"), Dst: victim.Addr, SrcPort: 1, DstPort: fabric.RoCEPort, IDKnown: true}
	roce.Seal(b, roce.NewPrefix(d.Src, d.Dst, d.SrcPort, d.DstPort, len(b)))
	size := 0
	for i := range 1000 {
		for range 100 {
			victim.HCA.Single().Receive(f.Now, &d)
		}
		f.Request(1)
		f.Arrive(0)
		for range 2 { // QP1 has the first turn of one of them
			f.Respond()
		}
		f.Arrive(1)
		f.Complete(1)
		if i == 10 {
			size = footprint(victim.HCA)
		}
	}
	if n := footprint(victim.HCA); n > size {
		t.Errorf("the adapter grew from %d to %d bytes", size, n)
	}
	if c := victim.HCA.Counters(); c.Drops[counters.DropMADAnswer] == 0 || c.RcvdPkts < 100_000 {
		t.Errorf("the flood was answered: %+v", c)
	}
}

// TestNodeGUID shows that an adapter has the GUID that it is given, and must be
// given one.
func TestNodeGUID(t *testing.T) {
	c := hca.Config{Caps: fabric.Caps{MTU: 4200}, Rand: rand.Uint32}
	if _, err := hca.New(c); !errors.Is(err, ib.EINVAL) {
		t.Errorf("an adapter without a GUID: %v", err)
	}
	c.NodeGUID = 0x505400fffe770002
	h, err := hca.New(c)
	rig.Must(t, err)
	if h.NodeGUID() != c.NodeGUID {
		t.Errorf("the GUID %#x became %#x", c.NodeGUID, h.NodeGUID())
	}
}

// TestV11_V14_GSI shows QP1: its number, one of it, its Q_Key, any P_Key of the
// table, and an AckReq as Linux sets it.
func TestV11_V14_GSI(t *testing.T) {
	cfg := hca.Config{PKeys: []ib.PKey{0xffff, 0x8123}, Privileged: true}
	s := rig.NewSolo(t, rig.SoloConfig{Type: ib.GSI, HCA: cfg})
	if s.QP.Num() != 1 {
		t.Errorf("QP1 has number %v", s.QP.Num())
	}
	if _, err := s.HCA.CreateQP(s.PD, hca.QPConfig{Type: ib.GSI, SendCQ: s.CQ, RecvCQ: s.CQ}); err == nil {
		t.Error("a second QP1 is created")
	}
	s.Recv(1, 40+256, 40+256, 40+256)
	mad := s.Packet(roce.UDSendOnly, 0, make([]byte, 256))
	for _, key := range []ib.PKey{0xffff, 0x0123, 0x8124} {
		mad.BTH.PKey = key
		s.Inject(mad)
	}
	mad.BTH.PKey, mad.DETH.QKey = 0xffff, 0x11111111
	s.Inject(mad)
	s.WantWCs("keys of the table with the Q_Key of QP1", rig.WC(1, ib.WCSuccess), rig.WC(2, ib.WCSuccess))
	if c := s.Counters(); c.Drops[counters.DropPKey] != 1 || c.Drops[counters.DropQKey] != 1 {
		t.Errorf("a wrong P_Key and a wrong Q_Key count as %d and %d", c.Drops[counters.DropPKey], c.Drops[counters.DropQKey])
	}
	wr := s.WR(ib.WRSend, 9, 0, 256)
	wr.RemoteQPN, wr.RemoteQKey = 1, ib.QKeyGSI
	got := s.Send(wr)
	if len(got) != 1 || got[0].DETH.SrcQP != 1 || got[0].BTH.DestQP != 1 || got[0].DETH.QKey != ib.QKeyGSI || !got[0].BTH.AckReq {
		t.Errorf("a MAD leaves as %+v", got)
	}
}
