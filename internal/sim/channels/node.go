package channels

import (
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/internal/virtual"
	"github.com/softhca/softhca/roce"
)

// The layout of an adapter's memory. Programs of all adapters are numbered
// consecutively; each has slots for its requests, in its own adapter and in
// every peer.
const (
	slots     = 4
	depth     = 6  // receives of a program
	common    = 16 // receives that programs of an adapter share
	maxLen    = 2600
	recvLen   = 2500 // of a receive; a longer SEND does not fit
	textLen   = 1 << 13
	everybody = 18 // programs of all adapters
	mine      = 6  // of one
	lives     = 3  // lives of a program with separate memory, so that late WRITEs do not collide

	atText   = 0
	atSend   = atText + textLen
	atRecv   = atSend + mine*slots*maxLen
	atCommon = atRecv + mine*depth*recvLen
	atWrite  = atCommon + common*recvLen
	atCount  = atWrite + lives*everybody*slots*maxLen
	memSize  = atCount + everybody*8
)

// node is an adapter.
type node struct {
	*virtual.Adapter // it has an address for each path

	w      *world
	cq     *qp.CQ
	rdd    *qp.RDD
	ends   map[ib.EECN]*end // of the existing channels
	shared *receives        // of programs that share them

	// Objects that the programs' peers must not reach: another domain, an EE
	// context and a queue pair in it, and a queue pair of another service.
	apart     *qp.RDD
	alien     *qp.EEC
	outsider  *qp.QP
	connected *qp.QP

	buf   []byte
	mr    *memory.Region
	wcs   [16]ib.WC
	ended bool // an EE context was destroyed
}

// path returns the index of the path with an address of the adapter.
func (n *node) path(a netip.Addr) int { return slices.Index(n.Addrs, a) }

// shape is the state that a packet without effect must not change.
type shape struct {
	eecs [maxEnds]struct {
		state    ib.QPState
		mig      ib.MigState
		to       ib.GID
		rpsn, ps ib.PSN
	}
	qps [mine]ib.QPState
}

// maxEnds is an upper bound of the channels of an adapter.
const maxEnds = 4

func (n *node) shape() (s shape) {
	i := 0
	for _, c := range n.w.channels {
		for _, e := range c.ends {
			if e.n != n {
				continue
			}
			a, x := e.eec.Query(), &s.eecs[i]
			x.state, x.mig, x.to, x.rpsn, x.ps = a.State, a.PathMigState, a.AV.DGID, a.RQPSN, a.SQPSN
			i++
		}
	}
	for _, p := range n.w.programs {
		if p.n == n {
			s.qps[p.local] = p.q.State()
		}
	}
	return s
}

// channel is a pair of EE contexts.
type channel struct {
	ends [2]*end
	gone bool
	cut  cut
}

// end is one of them.
type end struct {
	ch    *channel
	n     *node
	eec   *qp.EEC
	peer  *end
	route route

	port  uint16 // source port of its last packet
	sent  bool
	high  ib.PSN // highest PSN sent
	acked ib.PSN // highest PSN acknowledged

	since clock.Instant // time of the last news of its peer
}

// text is the data that READs return.
func text(i int) byte { return byte(i*7 + i>>8) }

func (w *world) setUp() {
	r := rand.New(rand.NewPCG(w.Config.Seed, streamSetup<<8))
	for i := range w.plan.nodes {
		a := w.Add(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), netip.AddrFrom4([4]byte{10, 0, 1, byte(i + 1)}))
		n := &node{Adapter: a, w: w, buf: make([]byte, memSize), ends: make(map[ib.EECN]*end)}
		w.nodes = append(w.nodes, n)
		n.open()
	}
	for a, n := range w.nodes {
		for range w.plan.programs {
			p := &program{n: n, index: len(w.programs), local: len(w.programs) % w.plan.programs}
			w.programs = append(w.programs, p)
			p.create()
		}
		for _, m := range w.nodes[:a] {
			for range w.plan.channels {
				w.connect(&channel{}, n, m, r)
			}
		}
	}
}

// open starts the adapter.
func (n *node) open() {
	w := n.w
	cfg := hca.Config{
		Caps: virtual.Caps(n.Addrs...), Rand: rand.New(rand.NewPCG(w.Config.Seed, uint64(100+n.Index))).Uint32, NodeGUID: uint64(n.Index + 1), Raise: n.raise,
		Settings: qp.Settings{MigReq: true, InOrderOnly: w.plan.inOrderOnly},
	}
	if w.Telling() {
		cfg.Trace = func(t *trace.Record) {
			if t.Kind != trace.PacketIn && t.Kind != trace.Completion {
				w.Say(n.Index, "%s", t)
			}
		}
	}
	w.Must(n.Open(cfg, 64<<10))
	var err error
	n.cq, err = n.HCA.CreateCQ(4096, nil)
	w.Must(err)
	n.rdd, err = n.HCA.AllocRDD()
	w.Must(err)
	for k := range textLen {
		n.buf[atText+k] = text(k)
	}
	n.mr, err = n.PD.RegMR(memory.RegionConfig{Buf: n.buf, IOVA: 1 << 32, Access: ib.AccessLocalWrite | ib.AccessRemote})
	w.Must(err)
	srq, err := n.PD.CreateSRQ(common, 1, 0)
	w.Must(err)
	n.shared = newReceives(atCommon, common)
	n.shared.srq = srq
	n.openOthers()
}

// openOthers creates the objects that the programs' peers must not reach.
func (n *node) openOthers() {
	w := n.w
	var err error
	n.apart, err = n.HCA.AllocRDD()
	w.Must(err)
	n.alien, err = n.HCA.CreateEEC(n.apart)
	w.Must(err)
	few := ib.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}
	n.outsider, err = n.HCA.CreateQP(n.PD, hca.QPConfig{Type: ib.RD, SendCQ: n.cq, RecvCQ: n.cq, RDD: n.apart, Cap: few})
	w.Must(err)
	w.Must(n.walk(n.outsider, &ib.QPAttr{Port: 1, QKey: outsiderKey, AccessFlags: ib.AccessRemote}))
	n.connected, err = n.HCA.CreateQP(n.PD, hca.QPConfig{Type: ib.RC, SendCQ: n.cq, RecvCQ: n.cq, Cap: few})
	w.Must(err)
}

// outsiderKey is the Q_Key of the queue pair in another domain.
const outsiderKey ib.QKey = 0x2222

// walk moves a queue pair of reliable datagrams from RESET to RTS.
func (n *node) walk(q *qp.QP, a *ib.QPAttr) error {
	return climb(ib.RD, a, func(a *ib.QPAttr, mask ib.AttrMask) error {
		if a.State == ib.RTR && a.MinRNRTimer != 0 {
			mask |= ib.AttrMinRNRTimer
		}
		return q.Modify(n.w.Now, a, mask)
	})
}

// climb makes the calls of modify from RESET to RTS.
func climb(t ib.QPType, a *ib.QPAttr, modify func(*ib.QPAttr, ib.AttrMask) error) error {
	for a.State = ib.INIT; a.State <= ib.RTS; a.State++ {
		required, _, _ := qp.Transition(t, a.State-1, a.State)
		if err := modify(a, required|ib.AttrState); err != nil {
			return err
		}
	}
	return nil
}

// timeout is the code of the local ACK timeout: 16.8 ms.
const timeout = 12

// connect creates the EE contexts of a channel and moves them to RTS.
func (w *world) connect(c *channel, a, b *node, r *rand.Rand) {
	w.channels = append(w.channels, c)
	for i, n := range [2]*node{a, b} {
		eec, err := n.HCA.CreateEEC(n.rdd)
		w.Must(err)
		c.ends[i] = &end{ch: c, n: n, eec: eec}
		n.ends[eec.Num()] = c.ends[i]
	}
	c.ends[0].peer, c.ends[1].peer = c.ends[1], c.ends[0]
	first := [2]ib.PSN{ib.NewPSN(r.Uint32()), ib.NewPSN(r.Uint32())}
	for i, e := range c.ends {
		attr := ib.QPAttr{
			Port: 1, PathMTU: ib.MTU(w.plan.mtu), DestQPN: ib.QPN(e.peer.eec.Num()), RQPSN: first[1-i], SQPSN: first[i],
			MaxDestRDAtomic: 2, MaxRDAtomic: 2, Timeout: timeout, RetryCnt: 7, RNRRetry: w.plan.rnrRetry, AV: *e.addressOf(0),
		}
		w.Must(climb(ib.EEC, &attr, e.modify))
	}
}

func (e *end) modify(a *ib.QPAttr, mask ib.AttrMask) error {
	return e.eec.Modify(e.n.w.Now, a, mask)
}

// raise handles the adapter's events. No channel or queue pair may fail.
func (n *node) raise(e qp.Event) {
	n.w.Say(n.Index, "event %v", e.Type)
	if n.w.quiet != "" {
		n.w.Fail("forged", "adapter %d: %v by %s", n.Index, e.Type, n.w.quiet)
	}
	switch e.Type {
	case ib.EventEECPathMig:
		n.ends[e.EEC].migrated()
	case ib.EventEECPathMigErr:
		n.ends[e.EEC].astray()
	case ib.EventEECFatal:
		n.w.Fail("channel", "adapter %d: %v of EE context %v", n.Index, e.Type, e.EEC)
	case ib.EventCQErr, ib.EventQPFatal, ib.EventQPReqErr, ib.EventQPAccessErr:
		n.w.Fail("event", "adapter %d: %v of queue pair %v", n.Index, e.Type, e.QPN)
	}
}

// sniff checks a packet that an end sends to the other one: it uses the path of
// the end, its MigReq shows the migration state, and only one message is in
// flight.
func (e *end) sniff(from *node, p *roce.Packet, path *fabric.Path) {
	w := from.w
	if at := e.route.at; e.n != from || path.Src != from.Addrs[at] || path.Dst != e.peer.n.Addrs[at] || p.BTH.MigReq == e.route.asked {
		w.Fail("path", "EE context %v of adapter %d is on path %d, ready to leave it %v, and there is a packet from %v to %v with MigReq %v",
			e.eec.Num(), e.n.Index, at, e.route.asked, path.Src, path.Dst, p.BTH.MigReq)
	}
	e.port = path.SrcPort
	if p.Info.Flags&roce.FlagResponse != 0 || p.Info.Kind == roce.KindWrite && p.RETH == (roce.RETH{}) && p.Info.Flags&roce.FlagStart != 0 {
		return // an answer, or a probe of a challenge
	}
	last := p.BTH.PSN
	if p.Info.Kind == roce.KindReadRequest {
		mtu := uint32(ib.MTU(w.plan.mtu).Bytes())
		last = last.Add(max(1, (p.RETH.Length+mtu-1)/mtu) - 1)
	}
	if e.sent && last.Diff(e.high) <= 0 {
		return
	}
	if e.sent && p.Info.Flags&roce.FlagStart != 0 && p.Info.Kind != roce.KindResync && p.BTH.PSN.Diff(e.high) > 0 && e.acked.Diff(e.high) < 0 {
		w.Fail("wire", "EE context %v begins PSN %v while %v is not answered", e.eec.Num(), p.BTH.PSN, e.high)
	}
	if !e.sent {
		e.acked = p.BTH.PSN.Prev()
	}
	e.sent, e.high = true, last
}

// obey records the PSNs that an arriving answer acknowledges.
func (e *end) obey(p *roce.Packet) {
	if p.Info.Flags&roce.FlagResponse == 0 || !e.sent || p.BTH.PSN.Diff(e.high) > 0 {
		return
	}
	e.hears()
	psn := p.BTH.PSN
	if p.Info.Kind == roce.KindAck && !p.AETH.Syndrome.IsACK() {
		psn = psn.Prev()
	}
	if psn.Diff(e.acked) > 0 {
		e.acked = psn
	}
}
