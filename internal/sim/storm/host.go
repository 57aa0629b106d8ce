package storm

import (
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/mad"
)

// ackDelay is the code of the adapters' acknowledge delay.
const ackDelay = 15

// host is one adapter and the program that uses it.
type host struct {
	w      *world
	index  int
	addrs  [2]netip.Addr // IPv4 and IPv6
	starts uint64        // how often the adapter was opened

	hca      *hca.HCA
	batch    *fabric.Batch
	source   *rand.Rand
	narrow   bool   // the adapter now draws small numbers
	made     uint32 // number of small numbers drawn
	deadline clock.Instant
	step     expectation

	pd      *hca.PD
	cq      *qp.CQ
	mr      *memory.Region
	memory  []byte
	slabs   []int // free slabs of the memory
	socks   map[ib.QPN]*socket
	shelf   []*socket // queue pairs for later connections
	ud      *socket   // queue pair of the datagram services
	qkey    ib.QKey
	handles []ib.AHHandle // to destroy once their datagrams are sent

	services map[mad.ServiceID]*cm.Listener
	sides    []*side          // sides that the manager or their programs hold, in order of creation
	ids      map[uint32]*side // sides with a local ID
}

// address returns the host's address of a family.
func (h *host) address(v6 bool) netip.Addr {
	if v6 {
		return h.addrs[1]
	}
	return h.addrs[0]
}

// open starts the adapter, for the first time or again: its objects are gone,
// its GUID and addresses stay.
func (h *host) open() {
	w := h.w
	h.starts++
	caps := fabric.Caps{Name: "storm", Addrs: h.addrs[:], MTU: 65507, MaxSegments: 64, MaxRunBytes: 65000}
	h.source = rand.New(rand.NewPCG(w.cfg.Seed, streamHost+uint64(h.index)<<32+h.starts))
	var err error
	h.hca, err = hca.New(hca.Config{
		Caps: caps, Rand: h.draw, NodeGUID: uint64(h.index) + 1, Connections: w.plan.limits, Settings: qp.Settings{MigReq: h.index%2 == 0, NoChallenge: !h.examines()},
	})
	w.must(err)
	h.batch = fabric.NewBatch(16<<10, caps)
	h.pd, err = h.hca.AllocPD()
	w.must(err)
	h.cq, err = h.hca.CreateCQ(512, nil)
	w.must(err)
	h.memory = make([]byte, slabs*slabSlots*slotSize)
	h.mr, err = h.pd.RegMR(memory.RegionConfig{Buf: h.memory, Access: ib.AccessLocalWrite})
	w.must(err)
	h.slabs, h.made = h.slabs[:0], 0
	for i := range slabs {
		h.slabs = append(h.slabs, i)
	}
	h.socks, h.ids = make(map[ib.QPN]*socket), make(map[uint32]*side)
	h.services = make(map[mad.ServiceID]*cm.Listener)
	h.shelf, h.sides, h.handles, h.step = nil, nil, nil, expectation{}
	h.deadline = clock.Never
	h.openDatagrams()
	for _, id := range serviceIDs() {
		if h.source.IntN(6) > 0 {
			h.listen(id)
		}
	}
}

// draw is the adapter's random source.
func (h *host) draw() uint32 {
	v := h.source.Uint32()
	if h.narrow {
		h.made++
		return 2 + h.made + v%8
	}
	return v
}

// openDatagrams creates the queue pair behind the services of datagrams.
func (h *host) openDatagrams() {
	w := h.w
	h.ud = h.take(datagrams, h.source)
	h.qkey = ib.QKey(h.source.Uint32() >> 1) // those with the highest bit need privilege
	for _, m := range []struct {
		a    ib.QPAttr
		mask ib.AttrMask
	}{
		{ib.QPAttr{State: ib.INIT, Port: 1, QKey: h.qkey}, ib.AttrState | ib.AttrPKeyIndex | ib.AttrPort | ib.AttrQKey},
		{ib.QPAttr{State: ib.RTR}, ib.AttrState},
		{ib.QPAttr{State: ib.RTS}, ib.AttrState | ib.AttrSQPSN},
	} {
		w.must(h.ud.qp.Modify(w.now, &m.a, m.mask))
	}
	h.ud.fill()
}

// serviceIDs are the services that hosts sometimes offer, two of each kind.
func serviceIDs() []mad.ServiceID {
	var ids []mad.ServiceID
	for k := range numKinds {
		ids = append(ids, serviceID(k, 0), serviceID(k, 1))
	}
	return ids
}

func serviceID(k kind, which int) mad.ServiceID {
	ps := mad.PSTCP
	if k == datagrams {
		ps = mad.PSUDP
	}
	return mad.IPServiceID(ps, uint16(7000+10*int(k)+which))
}

// listen opens a service.
func (h *host) listen(id mad.ServiceID) {
	l, err := h.hca.CM().Listen(id, h.handle)
	h.w.must(err)
	h.services[id] = l
}

// unlisten closes a service.
func (h *host) unlisten(id mad.ServiceID) {
	h.w.cells.count(cm.Listen, 0, cm.CallDestroy)
	h.services[id].Close()
	delete(h.services, id)
}

// adopt adds a side to those that are checked.
func (h *host) adopt(s *side) {
	if !slices.Contains(h.sides, s) {
		h.sides = append(h.sides, s)
	}
	delete(h.ids, s.localID) // the ID of an earlier try
	if s.localID = s.conn.LocalID(); s.localID != 0 {
		h.ids[s.localID] = s
	}
}

// restart destroys an adapter with all its objects without notice, and opens it
// again.
func (h *host) restart() {
	h.w.sayf("adapter %d restarts", h.index)
	for _, s := range h.sides {
		s.vanished = true
		s.turn++
		s.end()
		s.sock, s.pending = nil, 0
	}
	h.open()
	h.pump()
}

// pump lets the adapter transmit, polls completions, and checks the invariants
// between steps.
func (h *host) pump() {
	w := h.w
	shard := h.hca.Shard()
	for range pumpBound {
		shard.Transmit(w.now, h.batch)
		runs := h.batch.Pending()
		for i := range runs {
			w.carry(h, &runs[i])
		}
		h.batch.Reset()
		if h.poll() || shard.Pending() {
			continue
		}
		h.keepSilent()
		for _, a := range h.handles {
			w.must(h.pd.DestroyAH(a))
		}
		h.handles = h.handles[:0]
		if h.deadline = shard.Deadline(); h.deadline <= w.now {
			h.fire()
			continue
		}
		h.settleStep()
		h.check()
		return
	}
	w.fail("liveness", "adapter %d still sends after %d batches at one instant", h.index, pumpBound)
}

// pumpBound is more batches than any adapter can fill at one instant.
const pumpBound = 1000

// must fails the run if a call fails that must succeed.
func (w *world) must(err error) {
	if err != nil {
		w.fail("call", "a call that should work: %v", err)
	}
}
