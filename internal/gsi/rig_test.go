package gsi

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/packet"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

var (
	rigLocal = netip.AddrFrom4([4]byte{10, 0, 0, 1})
	rigPeer  = netip.AddrFrom4([4]byte{10, 0, 0, 2})
	rigCaps  = fabric.Caps{MTU: 65507, MaxSegments: 64, MaxRunBytes: 65000}
)

// rig is one interface in virtual time; its peer is the test.
type rig struct {
	t        testing.TB
	g        *Interface
	now      clock.Instant
	batch    *fabric.Batch
	trace    []trace.Record
	counters counters.Set
}

// newRig makes an interface on c's address, rigLocal by default.
func newRig(t testing.TB, c Config) *rig {
	r := &rig{t: t, now: 1e9, batch: fabric.NewBatch(64<<10, rigCaps)}
	if c.Ports == nil {
		c.Ports = [][]netip.Addr{{rigLocal}}
	}
	c.Out = &packet.Writer{
		Counters: &r.counters, Trace: func(rec *trace.Record) { r.trace = append(r.trace, *rec) },
	}
	r.g = New(c)
	return r
}

// sentMAD is a sent MAD with its addresses.
type sentMAD struct {
	path fabric.Path
	p    roce.Packet
	mad  mad.MAD
	seg  []byte
	id   uint16
}

func (s *sentMAD) header() mad.Header { return s.mad.Header() }

// sent transmits until nothing is left and returns the MADs, after a full check
// by the parser and of the ICRC.
func (r *rig) sent() (out []sentMAD) {
	r.t.Helper()
	for more := true; more; {
		more = r.g.Transmit(r.now, 1, r.batch)
		for _, run := range r.batch.Pending() {
			for k := range run.Count {
				s := sentMAD{path: run.Path, seg: append([]byte(nil), run.Segment(k)...), id: uint16(k)}
				if f := s.p.Parse(s.seg); f != roce.FaultNone {
					r.t.Fatalf("what leaves is no packet: %v", f)
				}
				pre := roce.NewPrefix(run.Path.Src, run.Path.Dst, run.Path.SrcPort, fabric.RoCEPort, len(s.seg))
				if !roce.Check(s.seg, pre.WithID(s.id)) {
					r.t.Fatal("what leaves has a wrong ICRC")
				}
				if len(s.p.Payload) != mad.Size {
					r.t.Fatalf("what leaves is no MAD: %d bytes", len(s.p.Payload))
				}
				s.mad = mad.MAD(s.p.Payload)
				out = append(out, s)
			}
		}
		r.batch.Reset()
	}
	return out
}

// wantSent transmits and checks that n MADs are sent.
func (r *rig) wantSent(what string, n int) []sentMAD {
	r.t.Helper()
	out := r.sent()
	if len(out) != n {
		r.t.Fatalf("%s: %d MADs leave, want %d", what, len(out), n)
	}
	return out
}

// packet wraps a MAD in a packet of the peer.
func (r *rig) packet(m *mad.MAD) roce.Packet {
	return roce.Packet{
		BTH:     roce.BTH{Opcode: roce.UDSendOnly, PKey: ib.PKeyDefault, DestQP: ib.QPNGSI, AckReq: true},
		DETH:    roce.DETH{QKey: ib.QKeyGSI, SrcQP: ib.QPNGSI},
		Payload: m[:],
	}
}

// datagram returns the addresses of the peer's packets.
func (r *rig) datagram() fabric.Datagram {
	return fabric.Datagram{Src: rigPeer, Dst: r.g.cfg.Ports[0][0], SrcPort: 55410, DstPort: fabric.RoCEPort, HopLimit: 61}
}

// receive delivers a packet as the shard does: parsed from bytes that are
// overwritten afterwards.
func (r *rig) receive(p roce.Packet, d fabric.Datagram) (counters.Drop, bool) {
	r.t.Helper()
	b := make([]byte, roce.Size(p.BTH.Opcode, len(p.Payload)))
	p.Build(b)
	var in roce.Packet
	if f := in.Parse(b); f != roce.FaultNone {
		r.t.Fatalf("the test's packet is none: %v", f)
	}
	drop, ok := r.hand(&in, &d)
	clear(b)
	return drop, ok
}

// hand delivers a parsed packet. It returns false and the reason if the packet
// was counted as dropped.
func (r *rig) hand(p *roce.Packet, d *fabric.Datagram) (counters.Drop, bool) {
	before := r.counters.Drops
	r.g.Receive(r.now, p, d)
	for drop, n := range r.counters.Drops {
		if n != before[drop] {
			return counters.Drop(drop), false
		}
	}
	return 0, true
}

// admitted reports whether a packet that was dropped for a reason was one for
// QP1: its service, addresses and keys were right.
func admitted(d counters.Drop) bool {
	return !slices.Contains([]counters.Drop{counters.DropService, counters.DropAddress, counters.DropPKey, counters.DropQKey}, d)
}

// deliver delivers a MAD, which must be accepted.
func (r *rig) deliver(what string, m *mad.MAD) {
	r.t.Helper()
	if drop, ok := r.receive(r.packet(m), r.datagram()); !ok {
		r.t.Fatalf("%s: dropped (%v)", what, drop)
	}
}

// wantDrop delivers a MAD, which must be dropped.
func (r *rig) wantDrop(what string, m *mad.MAD, want counters.Drop) {
	r.t.Helper()
	before := r.counters.Drops[want]
	drop, ok := r.receive(r.packet(m), r.datagram())
	if ok || drop != want || r.counters.Drops[want] != before+1 {
		r.t.Fatalf("%s: dropped %v (%v), counted %d; want %v", what, !ok, drop, r.counters.Drops[want]-before, want)
	}
}

// pass lets time go by; timers fire at their instants.
func (r *rig) pass(d time.Duration) {
	end := r.now.Add(d)
	for next := r.g.Deadline(); next <= end; next = r.g.Deadline() {
		r.now = next
		r.g.Advance(r.now)
	}
	r.now = end
}

// agent registers an agent that keeps the received MADs.
type agent struct {
	*Agent
	got    []mad.MAD
	from   []Address
	refuse bool // it refuses every MAD
}

func (r *rig) agent(class mad.Class, version uint8, methods ...mad.Method) *agent {
	r.t.Helper()
	a := &agent{}
	var err error
	a.Agent, err = r.g.Register(AgentConfig{
		Class: class, Version: version, Methods: methods,
		Info: mad.ClassPortInfo{BaseVersion: mad.BaseVersion, ClassVersion: version, RespTimeValue: 18},
		Receive: func(_ clock.Instant, m *Received) bool {
			a.got = append(a.got, *m.MAD)
			a.from = append(a.from, m.From)
			return !a.refuse
		},
	})
	must.Do(r.t, err)
	return a
}

// rigAttr is an attribute that has no meaning.
const rigAttr mad.AttrID = 0x4711

// madOf makes a MAD with a distinct body.
func madOf(class mad.Class, version uint8, method mad.Method, tid uint64) *mad.MAD {
	m := new(mad.MAD)
	m.PutHeader(mad.Header{
		BaseVersion: mad.BaseVersion, Class: class, ClassVersion: version, Method: method, TID: tid, AttrID: rigAttr, AttrMod: 5,
	})
	for i := range m.Data() {
		m.Data()[i] = byte(i) ^ byte(tid)
	}
	return m
}

// answerTo makes the response to a sent MAD.
func answerTo(s *sentMAD) *mad.MAD {
	m := s.mad
	h := m.Header()
	h.Method = h.Method.Response()
	m.PutHeader(h)
	return &m
}
