package rig

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/internal/virtual"
	"github.com/softhca/softhca/roce"
)

// SoloConfig configures a Solo; its zero value is an RC queue pair of an IPv4
// adapter at path MTU 256.
type SoloConfig struct {
	HCA      hca.Config // Caps, Rand, Raise and Trace are filled in
	Type     ib.QPType
	V6       bool
	Addr     netip.Addr // of the adapter; the zero value means 10.0.0.1 or fd00::1
	Peer     netip.Addr
	CQE      uint32           // entries of the CQ; 0 means 1024
	SRQ      uint32           // work requests of an SRQ; 0 for none
	Unsig    bool             // each send chooses whether it is signalled
	Batch    int              // bytes of the transmit batch; 0 means 256 KiB
	MTU      ib.MTU           // 0 means 256
	Attr     func(*ib.QPAttr) // changes the attributes of the connection
	MRAccess ib.Access        // 0 means all rights
	State    ib.QPState       // state to move to; 0 means RTS

	Challenge bool // enables challenges; without it each claim is believed at once
}

// Solo is one adapter whose peer is the test: the test builds the packets for
// the adapter, byte by byte, and checks every packet from it.
type Solo struct {
	*Side
	T     testing.TB
	Now   clock.Instant
	SRQ   *qp.SRQ
	RDD   *qp.RDD // of an RD queue pair,
	EEC   *qp.EEC // and its EE context, which has Attr and the state
	Peer  netip.Addr
	Attr  ib.QPAttr
	Moves []trace.Record // state transitions, in order
	ID    uint16
}

// MaxPacket is an upper bound of the UDP payload of a packet, and so the
// smallest batch.
const MaxPacket = 4096 + 64

// Constants of a Solo and its peer.
const (
	Bytes   = 64 << 10 // of the region
	PeerQPN = ib.QPN(0x777777)
	PeerPSN = 0x100 // first PSN that the peer sends
	PSN     = 0x200 // first PSN that the adapter sends
	QKey    = ib.QKey(0x11111111)
)

// NewSolo returns an adapter configured by c, with its queue pair in the
// requested state.
func NewSolo(t testing.TB, c SoloConfig) *Solo {
	t.Helper()
	s := &Solo{T: t, Side: &Side{Addr: netip.MustParseAddr("10.0.0.1")}, Peer: netip.MustParseAddr("10.0.0.2")}
	if c.V6 {
		s.Addr, s.Peer = netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
	}
	if c.Addr.IsValid() {
		s.Addr, s.Peer = c.Addr, c.Peer
	}
	s.open(&c)
	s.Attr = ib.QPAttr{
		Port: 1, AccessFlags: ib.AccessRemote | ib.AccessFlush, PathMTU: max(c.MTU, ib.MTU256), DestQPN: PeerQPN,
		RQPSN: ib.NewPSN(PeerPSN), SQPSN: ib.NewPSN(PSN), QKey: QKey,
		MaxDestRDAtomic: 4, MaxRDAtomic: 4, MinRNRTimer: 12, Timeout: 14, RetryCnt: 2, RNRRetry: 2,
		AV: ib.AHAttr{DGID: ib.GIDFromAddr(s.Peer), HopLimit: 64, Port: 1},
	}
	if c.Type == ib.GSI {
		s.Attr.QKey = ib.QKeyGSI
	}
	if c.Attr != nil {
		c.Attr(&s.Attr)
	}
	if c.State == ib.RESET {
		c.State = ib.RTS
	}
	s.Walk(c.State)
	return s
}

// Packets returns the number of packets in the batch.
func (s *Solo) Packets() (n int) {
	for _, run := range s.Batch.Pending() {
		n += run.Count
	}
	return n
}

// open creates the objects.
func (s *Solo) open(c *SoloConfig) {
	t := s.T
	cfg := c.HCA
	cfg.Settings.NoChallenge = !c.Challenge
	cfg.Trace = func(r *trace.Record) {
		if r.Kind == trace.State {
			s.Moves = append(s.Moves, *r)
		}
	}
	s.Side.open(t, cfg, 1, memory.RegionConfig{Buf: make([]byte, Bytes), IOVA: 1 << 32, Access: c.MRAccess})
	var err error
	if c.Batch != 0 {
		s.Batch = fabric.NewBatch(max(c.Batch, MaxPacket), virtual.Caps(s.Addr))
	}
	if c.CQE != 0 {
		Must(t, s.HCA.CQs().Destroy(s.CQ))
		s.CQ, err = s.HCA.CreateCQ(c.CQE, nil)
		Must(t, err)
	}
	if c.Type == ib.SMI {
		c.Type = ib.RC
	}
	if c.SRQ != 0 {
		s.SRQ, err = s.PD.CreateSRQ(c.SRQ, 2, 0)
		Must(t, err)
	}
	if c.Type == ib.RD {
		s.RDD, err = s.HCA.AllocRDD()
		Must(t, err)
		s.EEC, err = s.HCA.CreateEEC(s.RDD)
		Must(t, err)
	}
	q := hca.QPConfig{Type: c.Type, SendCQ: s.CQ, RecvCQ: s.CQ, SRQ: s.SRQ, RDD: s.RDD, Cap: Cap, SigAll: !c.Unsig}
	if c.Type == ib.XRCIni { // it receives nothing
		q.RecvCQ, q.Cap.MaxRecvWR, q.Cap.MaxRecvSGE = nil, 0, 0
	}
	s.QP, err = s.HCA.CreateQP(s.PD, q)
	Must(t, err)
}

// End returns the end of the connection: the queue pair's, or for RD the EE
// context's.
func (s *Solo) End() *qp.End {
	if s.EEC != nil {
		return &s.EEC.End
	}
	return &s.QP.End
}

// WalkMask is the mask that moves a queue pair to a state from the previous one.
func WalkMask(typ ib.QPType, to ib.QPState) ib.AttrMask {
	need, _, ok := qp.Transition(typ, to-1, to)
	if !ok {
		panic("no such walk")
	}
	return need | ib.AttrState
}

// Walk moves the queue pair from RESET to a state, through RTS if necessary. An
// RD queue pair moves to RTS, and its EE context to the state.
func (s *Solo) Walk(to ib.QPState) {
	s.T.Helper()
	typ := s.QP.Type()
	if s.EEC != nil {
		s.walkEEC(to)
		to = ib.RTS
	}
	for st := ib.INIT; st <= min(to, ib.RTS); st++ {
		s.Attr.State = st
		Must(s.T, s.QP.Modify(s.Now, &s.Attr, WalkMask(typ, st)))
	}
	switch to {
	case ib.SQD, ib.ERR:
		s.Modify(to)
	case ib.SQE:
		s.failSend()
	}
}

func (s *Solo) walkEEC(to ib.QPState) {
	s.T.Helper()
	for st := ib.INIT; st <= min(to, ib.RTS); st++ {
		s.Attr.State = st
		Must(s.T, s.EEC.Modify(s.Now, &s.Attr, WalkMask(ib.EEC, st)))
	}
	if to > ib.RTS {
		Must(s.T, s.EEC.Modify(s.Now, &ib.QPAttr{State: to}, ib.AttrState))
	}
}

// failSend moves a UC or UD queue pair to SQE with a send with a bad lkey.
func (s *Solo) failSend() {
	s.T.Helper()
	s.Send(ib.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{{Addr: 1, Length: 8, LKey: 1}}, AH: s.AH()})
	if s.QP.State() != ib.SQE {
		s.T.Fatalf("a %v send with a bad lkey leads to %v, want SQE", s.QP.Type(), s.QP.State())
	}
	s.Poll()
}

// AH returns an address handle of the peer; 0 for connected services.
func (s *Solo) AH() ib.AHHandle {
	if t := s.QP.Type(); t == ib.RC || t == ib.UC || t == ib.RD || t == ib.XRCIni {
		return 0
	}
	h, err := s.PD.CreateAH(&s.Attr.AV)
	Must(s.T, err)
	return h
}

// Modify changes the state alone.
func (s *Solo) Modify(to ib.QPState) {
	s.T.Helper()
	Must(s.T, s.QP.Modify(s.Now, &ib.QPAttr{State: to}, ib.AttrState))
}

// Packet returns a packet for the queue pair, as its peer would send it.
func (s *Solo) Packet(op roce.Opcode, psn uint32, payload []byte) roce.Packet {
	var h roce.RDETH
	if s.EEC != nil {
		h.EEC = uint32(s.EEC.Num())
	}
	return roce.Packet{
		RDETH: h,
		BTH: roce.BTH{
			Opcode: op, PKey: ib.PKeyDefault, DestQP: s.QP.Num(), PSN: ib.NewPSN(psn),
			AckReq: op.Info().Flags&(roce.FlagEnd|roce.FlagResponse) == roce.FlagEnd,
		},
		DETH:    roce.DETH{QKey: s.Attr.QKey, SrcQP: PeerQPN},
		RETH:    roce.RETH{VA: s.MR.Addr(), RKey: s.MR.RKey(), Length: uint32(len(payload))},
		AETH:    roce.AETH{Syndrome: roce.ACKUnlimited},
		Payload: payload,
	}
}

// Datagram seals a packet for the wire.
func (s *Solo) Datagram(p roce.Packet) fabric.Datagram {
	b := make([]byte, roce.Size(p.BTH.Opcode, len(p.Payload)))
	p.Build(b)
	return s.Sealed(b)
}

// Sealed writes the correct ICRC into the last bytes of b.
func (s *Solo) Sealed(b []byte) fabric.Datagram {
	d := fabric.Datagram{
		Bytes: b, Src: s.Peer, Dst: s.Addr, SrcPort: 0xc123, DstPort: fabric.RoCEPort,
		ID: s.ID, IDKnown: true, HopLimit: 61, TClass: 0x28,
	}
	s.ID++
	virtual.Seal(&d)
	return d
}

// Deliver delivers a datagram without transmitting.
func (s *Solo) Deliver(d fabric.Datagram) { s.HCA.Single().Receive(s.Now, &d) }

// Inject delivers packets one by one and returns the adapter's packets.
func (s *Solo) Inject(ps ...roce.Packet) []roce.Packet {
	s.T.Helper()
	for _, p := range ps {
		s.Deliver(s.Datagram(p))
	}
	return s.Out()
}

// Out lets the adapter transmit and returns the packets, as copies.
func (s *Solo) Out() []roce.Packet {
	s.T.Helper()
	var ps []roce.Packet
	for more := true; more; {
		more = s.Transmit(s.Now, func(run *fabric.Run) {
			for k := range run.Count {
				ps = append(ps, s.Parse(run, k))
			}
		})
	}
	return ps
}

// Parse checks and parses a packet that the adapter sent.
func (s *Solo) Parse(run *fabric.Run, k int) (p roce.Packet) {
	s.T.Helper()
	seg := bytes.Clone(run.Segment(k))
	if f := p.Parse(seg); f != roce.FaultNone {
		s.T.Fatalf("the adapter sent bytes that are no packet: %v", f)
	}
	pre := roce.NewPrefix(run.Path.Src, run.Path.Dst, run.Path.SrcPort, fabric.RoCEPort, len(seg))
	if !roce.Check(seg, pre.WithID(uint16(k))) {
		s.T.Fatalf("the adapter sent a packet with a wrong ICRC: %v", p.BTH)
	}
	if run.Path.Src != s.Addr || run.Path.Dst != s.Peer {
		s.T.Fatalf("the adapter sent a packet from %v to %v", run.Path.Src, run.Path.Dst)
	}
	return p
}

// Send posts send work requests and returns the packets that are sent.
func (s *Solo) Send(wrs ...ib.SendWR) []roce.Packet {
	s.T.Helper()
	if _, err := s.QP.PostSend(wrs...); err != nil {
		s.T.Fatal(err)
	}
	s.HCA.Single().RingDoorbell(s.QP)
	return s.Out()
}

// Recv posts receives of n bytes each, with IDs from first on.
func (s *Solo) Recv(first uint64, sizes ...int) {
	s.T.Helper()
	for i, n := range sizes {
		wr := ib.RecvWR{WRID: first + uint64(i), SGList: []ib.SGE{s.SGE(32<<10, n)}}
		var err error
		if s.SRQ != nil {
			err = s.SRQ.PostRecv(&wr)
		} else {
			_, err = s.QP.PostRecv(wr)
		}
		Must(s.T, err)
	}
	s.HCA.Single().RingDoorbell(s.QP)
}

// Pass advances time, fires timers and returns the packets that are sent.
func (s *Solo) Pass(d time.Duration) []roce.Packet {
	s.T.Helper()
	end := s.Now.Add(d)
	ps := s.Out()
	for next := s.HCA.Single().Deadline(); next <= end; next = s.HCA.Single().Deadline() {
		s.Now = max(s.Now, next)
		s.HCA.Single().Advance(s.Now)
		ps = append(ps, s.Out()...)
	}
	s.Now = end
	return ps
}

// Poll returns all completions.
func (s *Solo) Poll() []ib.WC {
	wcs := make([]ib.WC, 1024)
	return wcs[:s.CQ.Poll(wcs)]
}

// Counters returns the counts so far.
func (s *Solo) Counters() counters.Set { return s.HCA.Counters() }

// WantPackets compares the kind, PSN and syndrome of packets with the expected
// ones; what says what the comparison proves.
func (s *Solo) WantPackets(what string, got []roce.Packet, want ...Signature) {
	s.T.Helper()
	var have []Signature
	for i := range got {
		have = append(have, SigOf(&got[i]))
	}
	if !slices.Equal(have, want) {
		s.T.Errorf("%s: the adapter sent\n%v, want\n%v", what, have, want)
	}
}

// WantWCs compares the IDs and statuses of the pending completions.
func (s *Solo) WantWCs(what string, want ...Completion) {
	s.T.Helper()
	var have []Completion
	for _, c := range s.Poll() {
		if c.QPN != s.QP.Num() {
			s.T.Errorf("%s: completion %d names QP %v, want %v", what, c.WRID, c.QPN, s.QP.Num())
		}
		have = append(have, Completion{c.WRID, c.Status})
	}
	if !slices.Equal(have, want) {
		s.T.Errorf("%s: completions\n%v, want\n%v", what, have, want)
	}
}

// WantEvents compares the events since the last call.
func (s *Solo) WantEvents(what string, want ...ib.EventType) {
	s.T.Helper()
	var have []ib.EventType
	for _, e := range s.Events {
		have = append(have, e.Type)
	}
	s.Events = s.Events[:0]
	if !slices.Equal(have, want) {
		s.T.Errorf("%s: events %v, want %v", what, have, want)
	}
}

// WantState compares the state.
func (s *Solo) WantState(what string, want ib.QPState) {
	s.T.Helper()
	if st := s.QP.State(); st != want {
		s.T.Errorf("%s: the state is %v, want %v", what, st, want)
	}
}

// WantSilence checks that nothing happened: no packet, no completion, no event,
// and the state is still st.
func (s *Solo) WantSilence(what string, got []roce.Packet, st ib.QPState) {
	s.T.Helper()
	s.WantPackets(what, got)
	s.WantWCs(what)
	s.WantEvents(what)
	s.WantState(what, st)
}

// Read returns a READ request for n bytes.
func (s *Solo) Read(psn uint32, n int) roce.Packet {
	p := s.Packet(roce.RCRDMAReadRequest, psn, nil)
	p.RETH.Length = uint32(n)
	return p
}

// Write returns the packet of a WRITE whose whole length is n.
func (s *Solo) Write(op roce.Opcode, psn uint32, part []byte, n int) roce.Packet {
	p := s.Packet(op, psn, part)
	p.RETH.Length = uint32(n)
	return p
}

// FetchAdd returns a FETCH_ADD of v to the word at byte off of the region.
func (s *Solo) FetchAdd(psn uint32, off, v uint64) roce.Packet {
	p := s.Packet(roce.RCFetchAdd, psn, nil)
	p.AtomicETH = roce.AtomicETH{VA: s.MR.Addr() + off, RKey: s.MR.RKey(), SwapAdd: v}
	return p
}

// WantDead checks the effects of a fatal error of the responder: the current
// receive completes with status, or event is raised; then the receives with IDs
// next to last are flushed in order. QP_FATAL does not follow, since the error is
// already reported.
func (s *Solo) WantDead(what string, next, last uint64, status ib.WCStatus, event ...ib.EventType) {
	s.T.Helper()
	var want []Completion
	events := []ib.EventType{ib.EventQPReqErr}
	if len(event) > 0 {
		events[0] = event[0]
	}
	if status != 0 {
		want = append(want, Completion{next, status})
		next++
		events = nil
	}
	for ; next <= last; next++ {
		want = append(want, Completion{next, ib.WCWRFlushErr})
	}
	s.WantState(what, ib.ERR)
	s.WantWCs(what, want...)
	s.WantEvents(what, events...)
	s.WantSilence(what+": then silence", s.Inject(s.Packet(roce.RCSendOnly, PeerPSN+50, nil)), ib.ERR)
}

// WR returns a work request of n bytes at byte off of the region.
func (s *Solo) WR(op ib.WROpcode, id uint64, off, n int) ib.SendWR {
	return ib.SendWR{
		WRID: id, Opcode: op, SGList: []ib.SGE{s.SGE(off, n)}, RemoteAddr: 0x1000, RKey: 0x77,
		AH: s.AH(), RemoteQPN: PeerQPN, RemoteQKey: QKey,
	}
}

// Answer returns a response to the adapter's PSN psn.
func (s *Solo) Answer(op roce.Opcode, psn uint32, syn roce.Syndrome, payload []byte) roce.Packet {
	p := s.Packet(op, psn, payload)
	p.AETH.Syndrome = syn
	return p
}

// AckTo returns an ACKNOWLEDGE.
func (s *Solo) AckTo(psn uint32, syn roce.Syndrome) roce.Packet {
	return s.Answer(roce.RCAcknowledge, psn, syn, nil)
}

// Timeout is the retry timer of a Solo (code 14), and Tick a moment.
const (
	Timeout = 4096 << 14
	Tick    = time.Microsecond
)

// Types are the services of queue pairs that can be created.
var Types = []ib.QPType{ib.RC, ib.UC, ib.UD, ib.GSI}

// Reachable lists the states that a type can reach.
func Reachable(typ ib.QPType) []ib.QPState {
	st := []ib.QPState{ib.RESET, ib.INIT, ib.RTR, ib.RTS, ib.SQD, ib.ERR}
	if typ != ib.RC {
		st = append(st, ib.SQE)
	}
	return st
}

// InState returns a solo in a state.
func InState(t testing.TB, typ ib.QPType, st ib.QPState) *Solo {
	t.Helper()
	s := NewSolo(t, SoloConfig{Type: typ, State: max(st, ib.INIT), HCA: hca.Config{Privileged: true}})
	if st == ib.RESET {
		s.Modify(ib.RESET)
	}
	s.WantState("walked there", st)
	s.Events, s.Moves = nil, nil
	return s
}

// Resealed gives a datagram the ICRC of its present addresses.
func (s *Solo) Resealed(d fabric.Datagram) fabric.Datagram {
	virtual.Seal(&d)
	return d
}
