package storm

import (
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/virtual"
	"github.com/softhca/softhca/mad"
)

// ackDelay is the code of the adapters' acknowledge delay.
const ackDelay = 15

// host is one adapter and the program that uses it.
type host struct {
	*virtual.Adapter // its addresses are IPv4 and IPv6

	w      *world
	starts uint64 // how often the adapter was opened
	source *rand.Rand
	narrow bool   // the adapter now draws small numbers
	made   uint32 // number of small numbers drawn
	step   expectation

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
		return h.Addrs[1]
	}
	return h.Addrs[0]
}

// open starts the adapter, for the first time or again: its objects are gone,
// its GUID and addresses stay.
func (h *host) open() {
	w := h.w
	h.starts++
	h.source = rand.New(rand.NewPCG(w.Config.Seed, streamHost+uint64(h.Index)<<32+h.starts))
	w.Must(h.Open(hca.Config{
		Caps: virtual.Caps(h.Addrs...), Rand: h.draw, NodeGUID: uint64(h.Index) + 1, Connections: w.plan.limits, Settings: qp.Settings{MigReq: h.Index%2 == 0, NoChallenge: !h.examines()},
	}, 16<<10))
	var err error
	h.cq, err = h.HCA.CreateCQ(512, nil)
	w.Must(err)
	h.memory = make([]byte, slabs*slabSlots*slotSize)
	h.mr, err = h.PD.RegMR(memory.RegionConfig{Buf: h.memory, Access: ib.AccessLocalWrite})
	w.Must(err)
	h.slabs, h.made = h.slabs[:0], 0
	for i := range slabs {
		h.slabs = append(h.slabs, i)
	}
	h.socks, h.ids = make(map[ib.QPN]*socket), make(map[uint32]*side)
	h.services = make(map[mad.ServiceID]*cm.Listener)
	h.shelf, h.sides, h.handles, h.step = nil, nil, nil, expectation{}
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
		w.Must(h.ud.qp.Modify(w.Now, &m.a, m.mask))
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
	l, err := h.HCA.CM().Listen(id, h.handle)
	h.w.Must(err)
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
	h.w.Say(virtual.Nobody, "adapter %d restarts", h.Index)
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
	shard := h.HCA.Single()
	for range pumpBound {
		h.Transmit(w.Now, func(run *fabric.Run) { w.carry(h, run) })
		if h.poll() || shard.Pending() {
			continue
		}
		h.keepSilent()
		for _, a := range h.handles {
			w.Must(h.PD.DestroyAH(a))
		}
		h.handles = h.handles[:0]
		if h.Deadline = shard.Deadline(); h.Deadline <= w.Now {
			h.fire()
			continue
		}
		h.settleStep()
		h.check()
		return
	}
	w.Fail("liveness", "adapter %d still sends after %d batches at one instant", h.Index, pumpBound)
}

// pumpBound is more batches than any adapter can fill at one instant.
const pumpBound = 1000
