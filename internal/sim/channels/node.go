package channels

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/roce"
)

// Where things are in an adapter's memory. Programs of all adapters are numbered
// through; each has slots for its requests, at home and at every peer.
const (
	slots     = 4
	depth     = 6 // receives of a program
	maxLen    = 2600
	recvLen   = 2500 // of a receive; a longer SEND does not fit
	textLen   = 1 << 13
	everybody = 18 // programs of all adapters
	mine      = 6  // of one
	lives     = 3  // of a program, whose late WRITEs do not meet

	atText  = 0
	atSend  = atText + textLen
	atRecv  = atSend + mine*slots*maxLen
	atWrite = atRecv + mine*depth*recvLen
	atCount = atWrite + lives*everybody*slots*maxLen
	memSize = atCount + everybody*8
)

// node is an adapter.
type node struct {
	w     *world
	index int
	addr  netip.Addr
	hca   *hca.HCA
	pd    *hca.PD
	cq    *qp.CQ
	rdd   *qp.RDD
	apart *qp.RDD // another domain,
	alien *qp.EEC // and an EE context of it
	buf   []byte
	mr    *memory.Region
	batch *fabric.Batch
	wcs   [16]ib.WC
	ended bool // an EE context was destroyed
}

// channel is a pair of EE contexts.
type channel struct {
	ends [2]*end
	gone bool
}

// end is one of them.
type end struct {
	ch   *channel
	n    *node
	eec  *qp.EEC
	peer *end

	sent  bool
	high  ib.PSN // the last that was sent
	acked ib.PSN // the last that is answered
}

// text is what READs find.
func text(i int) byte { return byte(i*7 + i>>8) }

func (w *world) setUp() {
	r := rand.New(rand.NewPCG(w.cfg.Seed, streamSetup<<8))
	for i := range w.plan.nodes {
		n := &node{w: w, index: i, addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), buf: make([]byte, memSize)}
		caps := fabric.Caps{Name: "channels", Addrs: []netip.Addr{n.addr}, MTU: 65507, MaxSegments: 64, MaxRunBytes: 65000}
		cfg := hca.Config{
			Caps: caps, Rand: rand.New(rand.NewPCG(w.cfg.Seed, uint64(100+i))).Uint32, NodeGUID: uint64(i + 1), Raise: n.raise,
			Settings: qp.Settings{MigReq: true, InOrderOnly: w.plan.inOrderOnly},
		}
		if w.cfg.Ladder > 0 || w.cfg.Trace != nil {
			cfg.Trace = func(t *trace.Record) {
				if t.Kind != trace.PacketIn && t.Kind != trace.Completion {
					w.say("%d %s", n.index, t)
				}
			}
		}
		var err [7]error
		n.hca, err[0] = hca.New(cfg)
		n.batch = fabric.NewBatch(64<<10, caps)
		n.pd, err[1] = n.hca.AllocPD()
		n.cq, err[2] = n.hca.CreateCQ(4096, nil)
		n.rdd, err[3] = n.hca.AllocRDD()
		n.apart, err[4] = n.hca.AllocRDD()
		n.alien, err[5] = n.hca.CreateEEC(n.apart)
		for k := range textLen {
			n.buf[atText+k] = text(k)
		}
		n.mr, err[6] = n.pd.RegMR(memory.RegionConfig{Buf: n.buf, IOVA: 1 << 32, Access: ib.AccessLocalWrite | ib.AccessRemote})
		for _, e := range err {
			w.must(e)
		}
		w.nodes, w.byAddr[n.addr] = append(w.nodes, n), n
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

// must is for what cannot fail.
func (w *world) must(err error) {
	if err != nil {
		panic(fmt.Sprintf("channels: %v", err))
	}
}

// connect makes the EE contexts of a channel and moves them to RTS.
func (w *world) connect(c *channel, a, b *node, r *rand.Rand) {
	w.channels = append(w.channels, c)
	for i, n := range [2]*node{a, b} {
		eec, err := n.hca.CreateEEC(n.rdd)
		w.must(err)
		c.ends[i] = &end{ch: c, n: n, eec: eec}
	}
	c.ends[0].peer, c.ends[1].peer = c.ends[1], c.ends[0]
	first := [2]ib.PSN{ib.NewPSN(r.Uint32()), ib.NewPSN(r.Uint32())}
	for i, e := range c.ends {
		attr := ib.QPAttr{
			Port: 1, PathMTU: ib.MTU(w.plan.mtu), DestQPN: ib.QPN(e.peer.eec.Num()), RQPSN: first[1-i], SQPSN: first[i],
			MaxDestRDAtomic: 2, MaxRDAtomic: 2, Timeout: 13, RetryCnt: 7, RNRRetry: w.plan.rnrRetry,
			AV: ib.AHAttr{DGID: ib.GIDFromAddr(e.peer.n.addr), HopLimit: 64, Port: 1},
		}
		from := ib.RESET
		for _, to := range [...]ib.QPState{ib.INIT, ib.RTR, ib.RTS} {
			required, _, _ := qp.Transition(ib.EEC, from, to)
			attr.State, from = to, to
			w.must(e.modify(&attr, required|ib.AttrState))
		}
	}
}

func (e *end) modify(a *ib.QPAttr, mask ib.AttrMask) error {
	err := e.eec.Modify(e.n.w.now, a, mask)
	e.n.hca.Shard().Arm(&e.eec.End)
	return err
}

// raise hears the adapter's events. No channel may die, and no queue pair.
func (n *node) raise(e qp.Event) {
	n.w.say("%d event %v", n.index, e.Type)
	switch e.Type {
	case ib.EventEECFatal, ib.EventEECPathMig, ib.EventEECPathMigErr:
		n.w.fail("channel", "adapter %d: %v of EE context %v", n.index, e.Type, e.EEC)
	case ib.EventCQErr, ib.EventQPFatal, ib.EventQPReqErr, ib.EventQPAccessErr:
		n.w.fail("event", "adapter %d: %v of queue pair %v", n.index, e.Type, e.QPN)
	}
}

// endOf returns the end of a channel that has an EE context with a number.
func (w *world) endOf(n *node, num ib.EECN) *end {
	for _, c := range w.channels {
		for _, e := range c.ends {
			if e.n == n && e.eec.Num() == num && !c.gone {
				return e
			}
		}
	}
	return nil
}

// sniff looks at a packet that an adapter sends: of each EE context, one message
// at a time is in flight.
func (w *world) sniff(from *node, seg []byte) {
	w.tell(from, "sends", seg)
	var p roce.Packet
	if p.Parse(seg) != roce.FaultNone || p.Info.Service != roce.ServiceRD {
		w.fail("wire", "adapter %d sends what is no packet of reliable datagrams", from.index)
		return
	}
	if p.Info.Flags&roce.FlagResponse != 0 {
		return
	}
	var e *end
	for _, c := range w.channels {
		for _, x := range c.ends {
			if x.n == from && !c.gone && uint32(x.peer.eec.Num()) == p.RDETH.EEC {
				e = x
			}
		}
	}
	if e == nil {
		return // it is destroyed
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
		w.fail("wire", "EE context %v begins PSN %v while %v is not answered", e.eec.Num(), p.BTH.PSN, e.high)
	}
	if !e.sent {
		e.acked = p.BTH.PSN.Prev()
	}
	e.sent, e.high = true, last
}

// heed notes what an answer that arrives acknowledges.
func (w *world) heed(to *node, seg []byte) {
	var p roce.Packet
	if p.Parse(seg) != roce.FaultNone || p.Info.Service != roce.ServiceRD || p.Info.Flags&roce.FlagResponse == 0 {
		return
	}
	e := w.endOf(to, ib.EECN(p.RDETH.EEC))
	if e == nil || !e.sent || p.BTH.PSN.Diff(e.high) > 0 {
		return
	}
	psn := p.BTH.PSN
	if p.Info.Kind == roce.KindAck && !p.AETH.Syndrome.IsACK() {
		psn = psn.Prev()
	}
	if psn.Diff(e.acked) > 0 {
		e.acked = psn
	}
}
