package hca

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/roce"
)

// soloConfig says what a solo is made of; its zero value is an RC queue pair
// of an IPv4 adapter at path MTU 256.
type soloConfig struct {
	hca      Config // Caps, Rand, Raise and Trace are filled in
	typ      ib.QPType
	v6       bool
	addr     netip.Addr // of the adapter; not valid takes 10.0.0.1 or fd00::1
	peer     netip.Addr
	cqe      uint32           // entries of the CQ; 0 takes 1024
	srq      uint32           // work requests of an SRQ; 0 for none
	unsig    bool             // each send chooses whether it is signalled
	batch    int              // bytes of the transmit batch; 0 takes 256 KiB
	mtu      ib.MTU           // 0 takes 256
	attr     func(*ib.QPAttr) // changes what the queue pair is connected with
	mrAccess ib.Access        // 0 takes all rights
	state    ib.QPState       // to walk to; 0 takes RTS
}

// solo is one adapter whose peer is the test: the test makes the packets that
// it gets, byte by byte, and looks at every packet that it sends.
type solo struct {
	*rigSide
	t     testing.TB
	now   clock.Instant
	srq   *qp.SRQ
	peer  netip.Addr
	attr  ib.QPAttr
	moves []trace.Record // state transitions, in order
	id    uint16
}

const (
	soloBytes   = 64 << 10
	soloPeerQPN = ib.QPN(0x777777)
	soloPeerPSN = 0x100 // first PSN that the peer sends
	soloPSN     = 0x200 // first PSN that the adapter sends
	soloQKey    = ib.QKey(0x11111111)
)

func newSolo(t testing.TB, c soloConfig) *solo {
	t.Helper()
	s := &solo{t: t, rigSide: &rigSide{addr: netip.MustParseAddr("10.0.0.1")}, peer: netip.MustParseAddr("10.0.0.2")}
	if c.v6 {
		s.addr, s.peer = netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
	}
	if c.addr.IsValid() {
		s.addr, s.peer = c.addr, c.peer
	}
	s.open(&c)
	s.attr = ib.QPAttr{
		Port: 1, AccessFlags: ib.AccessRemote, PathMTU: max(c.mtu, ib.MTU256), DestQPN: soloPeerQPN,
		RQPSN: ib.NewPSN(soloPeerPSN), SQPSN: ib.NewPSN(soloPSN), QKey: soloQKey,
		MaxDestRDAtomic: 4, MaxRDAtomic: 4, MinRNRTimer: 12, Timeout: 14, RetryCnt: 2, RNRRetry: 2,
		AV: ib.AHAttr{DGID: ib.GIDFromAddr(s.peer), HopLimit: 64, Port: 1},
	}
	if c.typ == ib.GSI {
		s.attr.QKey = ib.QKeyGSI
	}
	if c.attr != nil {
		c.attr(&s.attr)
	}
	if c.state == ib.RESET {
		c.state = ib.RTS
	}
	s.walk(c.state)
	return s
}

// packets returns the number of packets in the batch.
func (s *solo) packets() (n int) {
	for _, run := range s.batch.Pending() {
		n += run.Count
	}
	return n
}

// open makes the objects.
func (s *solo) open(c *soloConfig) {
	t := s.t
	caps := fabric.Caps{Name: "solo", Addrs: []netip.Addr{s.addr}, MTU: 65507, MaxSegments: 64, MaxRunBytes: 65000}
	src := rand.New(rand.NewPCG(1, 7))
	cfg := c.hca
	cfg.Caps, cfg.Rand, cfg.NodeGUID = caps, src.Uint32, 1
	cfg.Raise = func(e qp.Event) { s.events = append(s.events, e) }
	cfg.Trace = func(r *trace.Record) {
		if r.Kind == trace.State {
			s.moves = append(s.moves, *r)
		}
	}
	var err error
	s.hca, err = New(cfg)
	must(t, err)
	s.batch = fabric.NewBatch(max(c.batch, maxPacket), caps)
	if c.batch == 0 {
		s.batch = fabric.NewBatch(256<<10, caps)
	}
	s.pd, err = s.hca.AllocPD()
	must(t, err)
	if c.cqe == 0 {
		c.cqe = 1024
	}
	s.cq, err = s.hca.CreateCQ(c.cqe, nil)
	must(t, err)
	s.buf = make([]byte, soloBytes)
	if c.mrAccess == 0 {
		c.mrAccess = ib.AccessLocalWrite | ib.AccessRemote
	}
	s.mr, err = s.pd.RegMR(memory.RegionConfig{Buf: s.buf, IOVA: 1 << 32, Access: c.mrAccess})
	must(t, err)
	if c.typ == ib.SMI {
		c.typ = ib.RC
	}
	if c.srq != 0 {
		s.srq, err = s.pd.CreateSRQ(c.srq, 2, 0)
		must(t, err)
	}
	s.qp, err = s.hca.CreateQP(s.pd, QPConfig{
		Type: c.typ, SendCQ: s.cq, RecvCQ: s.cq, SRQ: s.srq, Cap: rigCap, SigAll: !c.unsig,
	})
	must(t, err)
}

// masks are the attributes with which a type goes to a state.
func walkMask(typ ib.QPType, to ib.QPState) ib.AttrMask {
	need, _, ok := qp.Transition(typ, to-1, to)
	if !ok {
		panic("no such walk")
	}
	return need | ib.AttrState
}

// walk takes the queue pair from RESET to a state by way of RTS, if it lies
// beyond.
func (s *solo) walk(to ib.QPState) {
	s.t.Helper()
	typ := s.qp.Type()
	for st := ib.INIT; st <= min(to, ib.RTS); st++ {
		s.attr.State = st
		must(s.t, s.qp.Modify(s.now, &s.attr, walkMask(typ, st)))
	}
	switch to {
	case ib.SQD, ib.ERR:
		s.modify(to)
	case ib.SQE:
		s.failSend()
	}
}

// failSend takes a UC or UD queue pair to SQE by a send with a bad lkey.
func (s *solo) failSend() {
	s.t.Helper()
	s.send(ib.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{{Addr: 1, Length: 8, LKey: 1}}, AH: s.ah()})
	if s.qp.State() != ib.SQE {
		s.t.Fatalf("a %v send with a bad lkey leads to %v, want SQE", s.qp.Type(), s.qp.State())
	}
	s.poll()
}

// ah returns an address handle of the peer; 0 for connected services.
func (s *solo) ah() ib.AHHandle {
	if t := s.qp.Type(); t == ib.RC || t == ib.UC {
		return 0
	}
	h, err := s.pd.CreateAH(&s.attr.AV)
	must(s.t, err)
	return h
}

// modify changes the state alone.
func (s *solo) modify(to ib.QPState) {
	s.t.Helper()
	must(s.t, s.qp.Modify(s.now, &ib.QPAttr{State: to}, ib.AttrState))
}

// packet returns a packet for the queue pair, as its peer would send it.
func (s *solo) packet(op roce.Opcode, psn uint32, payload []byte) roce.Packet {
	return roce.Packet{
		BTH: roce.BTH{
			Opcode: op, PKey: ib.PKeyDefault, DestQP: s.qp.Num(), PSN: ib.NewPSN(psn),
			AckReq: op.Info().Flags&(roce.FlagEnd|roce.FlagResponse) == roce.FlagEnd,
		},
		DETH:    roce.DETH{QKey: s.attr.QKey, SrcQP: soloPeerQPN},
		RETH:    roce.RETH{VA: s.mr.Addr(), RKey: s.mr.RKey(), Length: uint32(len(payload))},
		AETH:    roce.AETH{Syndrome: roce.ACKUnlimited},
		Payload: payload,
	}
}

// datagram seals a packet for the wire.
func (s *solo) datagram(p roce.Packet) fabric.Datagram {
	b := make([]byte, roce.Size(p.BTH.Opcode, len(p.Payload)))
	p.Build(b)
	return s.sealed(b)
}

// sealed gives bytes that end with room for the ICRC the right one.
func (s *solo) sealed(b []byte) fabric.Datagram {
	d := fabric.Datagram{
		Bytes: b, Src: s.peer, Dst: s.addr, SrcPort: 0xc123, DstPort: fabric.RoCEPort,
		ID: s.id, IDKnown: true, HopLimit: 61, TClass: 0x28,
	}
	s.id++
	roce.Seal(b, roce.NewPrefix(d.Src, d.Dst, d.SrcPort, d.DstPort, len(b)).WithID(d.ID))
	return d
}

// deliver hands a datagram in without letting anything out.
func (s *solo) deliver(d fabric.Datagram) { s.hca.Shard().Receive(s.now, &d) }

// inject hands packets in one after the other and returns what comes out.
func (s *solo) inject(ps ...roce.Packet) []roce.Packet {
	s.t.Helper()
	for _, p := range ps {
		s.deliver(s.datagram(p))
	}
	return s.out()
}

// out lets the adapter transmit and returns the packets, which keep their
// bytes.
func (s *solo) out() []roce.Packet {
	s.t.Helper()
	var ps []roce.Packet
	for more := true; more; {
		more = s.hca.Shard().Transmit(s.now, s.batch)
		runs := s.batch.Pending()
		for i := range runs {
			for k := range runs[i].Count {
				ps = append(ps, s.parse(&runs[i], k))
			}
		}
		s.batch.Reset()
	}
	return ps
}

// parse checks and parses a packet that the adapter sent.
func (s *solo) parse(run *fabric.Run, k int) (p roce.Packet) {
	s.t.Helper()
	seg := bytes.Clone(run.Segment(k))
	if f := p.Parse(seg); f != roce.FaultNone {
		s.t.Fatalf("the adapter sent bytes that are no packet: %v", f)
	}
	pre := roce.NewPrefix(run.Path.Src, run.Path.Dst, run.Path.SrcPort, fabric.RoCEPort, len(seg))
	if !roce.Check(seg, pre.WithID(uint16(k))) {
		s.t.Fatalf("the adapter sent a packet with a wrong ICRC: %v", p.BTH)
	}
	if run.Path.Src != s.addr || run.Path.Dst != s.peer {
		s.t.Fatalf("the adapter sent a packet from %v to %v", run.Path.Src, run.Path.Dst)
	}
	return p
}

// send posts send work requests and returns the packets that go out.
func (s *solo) send(wrs ...ib.SendWR) []roce.Packet {
	s.t.Helper()
	if _, err := s.qp.PostSend(wrs...); err != nil {
		s.t.Fatal(err)
	}
	s.hca.Shard().RingDoorbell(s.qp)
	return s.out()
}

// recv posts receives of n bytes each, with IDs from first on.
func (s *solo) recv(first uint64, sizes ...int) {
	s.t.Helper()
	for i, n := range sizes {
		wr := ib.RecvWR{WRID: first + uint64(i), SGList: []ib.SGE{s.sge(32<<10, n)}}
		var err error
		if s.srq != nil {
			err = s.srq.PostRecv(&wr)
		} else {
			_, err = s.qp.PostRecv(wr)
		}
		must(s.t, err)
	}
	s.hca.Shard().RingDoorbell(s.qp)
}

// pass lets time go by, fires what is due on the way and returns the packets
// that go out.
func (s *solo) pass(d time.Duration) []roce.Packet {
	s.t.Helper()
	end := s.now.Add(d)
	ps := s.out()
	for next := s.hca.Shard().Deadline(); next <= end; next = s.hca.Shard().Deadline() {
		s.now = max(s.now, next)
		s.hca.Shard().Advance(s.now)
		ps = append(ps, s.out()...)
	}
	s.now = end
	return ps
}

// poll returns all completions.
func (s *solo) poll() []ib.WC {
	wcs := make([]ib.WC, 1024)
	return wcs[:s.cq.Poll(wcs)]
}

// counters returns the counts so far.
func (s *solo) counters() counters.Set { return s.hca.Counters() }

// wantPackets compares the kind, PSN and syndrome of packets with what is
// expected, and says what that proves.
func (s *solo) wantPackets(what string, got []roce.Packet, want ...sig) {
	s.t.Helper()
	var have []sig
	for i := range got {
		have = append(have, sigOf(&got[i]))
	}
	if !slices.Equal(have, want) {
		s.t.Errorf("%s: the adapter sent\n%v, want\n%v", what, have, want)
	}
}

// sig is what most tests look at in a packet. The syndrome is 0xff where
// there is no AETH.
type sig struct {
	op       roce.Opcode
	psn      uint32
	syndrome roce.Syndrome
}

// noAETH stands in a sig for a packet without an AETH.
const noAETH roce.Syndrome = 0xff

func sigOf(p *roce.Packet) sig {
	g := sig{p.BTH.Opcode, p.BTH.PSN.Value(), noAETH}
	if p.Info.Headers&roce.HasAETH != 0 {
		g.syndrome = p.AETH.Syndrome
	}
	return g
}

// req is the sig of a request.
func req(op roce.Opcode, psn uint32) sig { return sig{op, psn, noAETH} }

// ack is the sig of an ACKNOWLEDGE.
func ack(s roce.Syndrome, psn uint32) sig { return sig{roce.RCAcknowledge, psn, s} }

// wantWCs compares the IDs and statuses of the completions that wait.
func (s *solo) wantWCs(what string, want ...wc) {
	s.t.Helper()
	var have []wc
	for _, c := range s.poll() {
		if c.QPN != s.qp.Num() {
			s.t.Errorf("%s: completion %d names QP %v, want %v", what, c.WRID, c.QPN, s.qp.Num())
		}
		have = append(have, wc{c.WRID, c.Status})
	}
	if !slices.Equal(have, want) {
		s.t.Errorf("%s: completions\n%v, want\n%v", what, have, want)
	}
}

// wc is what most tests look at in a completion.
type wc struct {
	id     uint64
	status ib.WCStatus
}

// wantEvents compares the events since the last call.
func (s *solo) wantEvents(what string, want ...ib.EventType) {
	s.t.Helper()
	var have []ib.EventType
	for _, e := range s.events {
		have = append(have, e.Type)
	}
	s.events = s.events[:0]
	if !slices.Equal(have, want) {
		s.t.Errorf("%s: events %v, want %v", what, have, want)
	}
}

// wantState compares the state.
func (s *solo) wantState(what string, want ib.QPState) {
	s.t.Helper()
	if st := s.qp.State(); st != want {
		s.t.Errorf("%s: the state is %v, want %v", what, st, want)
	}
}

// wantSilence checks that nothing at all happened: no packet, completion,
// event, or change of state from st.
func (s *solo) wantSilence(what string, got []roce.Packet, st ib.QPState) {
	s.t.Helper()
	s.wantPackets(what, got)
	s.wantWCs(what)
	s.wantEvents(what)
	s.wantState(what, st)
}
