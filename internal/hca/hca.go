package hca

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/number"
	"github.com/softhca/softhca/internal/packet"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/shard"
	"github.com/softhca/softhca/roce"
)

// errGUID is returned by New for a configuration without a GUID.
var errGUID = fmt.Errorf("the adapter has no node GUID: %w", ib.EINVAL)

// errMTU is returned by New for a port too small for any RoCE path.
var errMTU = errors.New("the port's MTU is below the smallest path MTU of 256 bytes")

// port1 is the number of the adapter's only port.
const port1 = 1

// HCA is the control plane of one adapter with one port and one shard: the objects, their
// numbers and keys, the tables of the port, and the connection manager.
type HCA struct {
	planes
	connector
	xrcObjects

	cfg   Config
	env   qp.Env // of the queue pairs, and so of the shard
	shard *shard.Shard
	gsi   *gsi.Interface
	cm    *cm.Manager

	pds  map[memory.PD]*PD
	next memory.PD

	serial memory.Serial // of the last queue pair that was created
	rdds   map[*qp.RDD]bool
	qpns   *number.Pool
	eecs   *number.Pool
	use    Resources // the counts of CQs, SRQs, QPs and EE contexts
	track  tracker

	onDM    map[*memory.Region]*DM // regions of device memory
	dmBytes uint64                 // allocated device memory
}

// New returns an adapter for a port with the given capabilities.
func New(c Config) (*HCA, error) {
	if c.NodeGUID == 0 {
		return nil, errGUID
	}
	c.fill()
	mtu, ok := ActiveMTU(c.Caps)
	if !ok {
		return nil, errMTU
	}
	h := &HCA{
		cfg: c, pds: make(map[memory.PD]*PD), rdds: make(map[*qp.RDD]bool), onDM: make(map[*memory.Region]*DM), qpns: number.NewPool(c.QPNSlot), eecs: number.NewPool(c.QPNSlot),
	}
	h.env = newEnv(&c, mtu)
	h.track.table = c.Table
	h.gsi = gsi.New(gsi.Config{
		Ports: [][]netip.Addr{c.Caps.Addrs}, PKeys: c.PKeys, MigReq: c.Settings.MigReq, SrcPort: c.Caps.SrcPort, Out: h.env.Out,
	})
	h.cm = h.newCM(mtu)
	h.shard = shard.New(&h.env, c.QPNSlot, &port{gsi: h.gsi, over: &h.over})
	h.connector = connector{&h.planes, &h.cfg, h.shard}
	h.xrcObjects = xrcObjects{&h.planes, &h.cfg, h.shard, &h.track, make(map[*qp.XRCD]bool), number.NewPool(c.QPNSlot)}
	return h, nil
}

// newEnv returns the part of the queue pairs' environment that the adapter sets.
func newEnv(c *Config, mtu ib.MTU) qp.Env {
	p := &qp.Port{Addrs: c.Caps.Addrs, PKeys: c.PKeys, SrcPort: c.Caps.SrcPort, SecondGID: c.SecondGID}
	mem := memory.NewTable(c.Rand, memory.Limits{Regions: c.Limits.MaxMR, Windows: c.Limits.MaxMW})
	mem.LogWrites(c.Writes)
	mem.Disorder(c.Nasty, c.Pause)
	return qp.Env{
		Settings: c.Settings,
		Limits: qp.ModifyLimits{
			Ports: port1, PKeys: len(c.PKeys), GIDs: p.GIDs(), ActiveMTU: mtu,
			MaxRDAtomic: c.Limits.MaxRDAtomic, MaxDestRDAtomic: c.Limits.MaxRDAtomic,
			Privileged: c.Privileged, APM: true, PortMbps: c.PortMbps,
		},
		Ports:    []*qp.Port{p},
		Mem:      mem,
		Queues:   c.Queues,
		AHs:      qp.NewAHTable(c.Limits.MaxAH),
		Counters: c.Counters,
		Table:    c.Table,
		Out:      &packet.Writer{Counters: c.Counters, Trace: c.Trace, Rare: c.TraceRare},
		Trace:    c.Trace,
		Changed:  c.Changed,
		Raise:    c.Raise,
		Nasty:    c.Nasty,

		WriteBack:       c.WriteBack,
		CancelWriteBack: c.CancelWriteBack,
		Backlog:         c.Backlog,
	}
}

// headroom is the maximum size of a packet minus its payload: an RD WRITE with
// immediate data has BTH, RDETH, DETH, RETH, ImmDt and ICRC.
const headroom = roce.BTHLen + 4 + 8 + 16 + 4 + roce.ICRCLen

// Shard returns the adapter's shard.
func (h *HCA) Shard() *shard.Shard { return h.shard }

// GSI returns the adapter's QP1. A queue pair of type GSI replaces it while
// that exists: the interface then receives nothing, its MADs wait in its queue
// until the queue pair is destroyed, and its requests time out.
func (h *HCA) GSI() *gsi.Interface { return h.gsi }

// NodeGUID returns the GUID that identifies the adapter to peers.
func (h *HCA) NodeGUID() uint64 { return h.cfg.NodeGUID }

// Limits returns the limits of the adapter.
func (h *HCA) Limits() Limits { return h.cfg.Limits }

// ActiveMTU returns the largest path MTU of the port.
func (h *HCA) ActiveMTU() ib.MTU { return h.env.Limits.ActiveMTU }

// PKeys returns the port's P_Key table, which the caller must not change.
func (h *HCA) PKeys() []ib.PKey { return h.cfg.PKeys }

// Counters returns the counts so far. The caller is in the shard.
func (h *HCA) Counters() counters.Set { return *h.cfg.Counters }

// Count returns the live counters, for callers that check them after each step.
// The caller must not change them.
func (h *HCA) Count() *counters.Set { return h.cfg.Counters }

// Resources are the numbers of objects that an adapter has.
type Resources struct {
	PDs, CQs, SRQs, QPs, MRs, MWs int
	// RDDs and EECs are the domains and EE contexts of reliable datagrams.
	RDDs, EECs int
	// XRCDs are the domains of extended reliable connections.
	XRCDs int
	// Conns are the connections and resolutions of the communication manager,
	// including those in TIMEWAIT.
	Conns int
}

// Resources counts the objects.
func (h *HCA) Resources() Resources {
	r := h.use
	r.PDs, r.RDDs, r.XRCDs, r.Conns = len(h.pds), len(h.rdds), len(h.domains), h.cm.Conns()
	h.look(func() { r.MRs, r.MWs = h.env.Mem.Len(), h.env.Mem.Windows() })
	return r
}

// AllocPD returns a new protection domain (V2).
func (h *HCA) AllocPD() (*PD, error) {
	if len(h.pds) >= h.cfg.Limits.MaxPD {
		return nil, ib.ErrInsufficientResources
	}
	for h.next++; h.next == 0 || h.pds[h.next] != nil; h.next++ {
	}
	pd := &PD{hca: h, ID: h.next}
	h.pds[pd.ID] = pd
	h.track.pd(pd)
	return pd, nil
}

// valid reports whether p is a live protection domain of h.
func (h *HCA) valid(p *PD) bool { return p != nil && p.hca == h && h.pds[p.ID] == p }

// CreateCQ returns a completion queue of at least n entries. onEvent is
// called when an armed queue gets a matching completion; it must not block.
func (h *HCA) CreateCQ(n uint32, onEvent func()) (*qp.CQ, error) {
	return h.CQs().Create(qp.CQConfig{Entries: n, OnEvent: onEvent})
}

// WrittenBack reports the end of a job of Config.WriteBack, and whether it succeeded. The caller
// is in the shard.
func (h *HCA) WrittenBack(now clock.Instant, w qp.WriteBack, ok bool) {
	h.env.Enter(now)
	if q := h.env.QPs.Find(uint32(w.QPN)); q != nil {
		q.WrittenBack(w.Job, ok)
	}
}

// Inject sets the function that responders call before they execute a
// request, and the one that queue pairs call when they begin a work request; nil, the
// default, for none. They must be set before the shard runs.
func (h *HCA) Inject(f qp.Inject, request qp.InjectRequest) {
	h.env.Inject, h.env.InjectRequest = f, request
}

// Raise raises an asynchronous event without a cause in the engine.
func (h *HCA) Raise(e qp.Event) { h.cfg.Raise(e) }

// EachQP calls f for every QP but QP1. The caller is in the shard.
func (h *HCA) EachQP(f func(*qp.QP)) { h.env.QPs.Each(f) }
