package hca

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// errGUID is returned by New for a configuration without a GUID.
var errGUID = fmt.Errorf("the adapter has no node GUID: %w", ib.EINVAL)

// errMTU is returned by New for a port too small for any RoCE path.
var errMTU = errors.New("the port's MTU is below the smallest path MTU of 256 bytes")

// HCA is one adapter with one port and one shard.
type HCA struct {
	cfg   Config
	shard *Shard
	pds   map[memory.PD]*PD
	rdds  map[*qp.RDD]bool
	cqs   int
	srqs  int
	next  memory.PD
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
	h := &HCA{cfg: c, pds: make(map[memory.PD]*PD), rdds: make(map[*qp.RDD]bool)}
	h.shard = newShard(&h.cfg, mtu)
	return h, nil
}

// headroom is the maximum size of a packet minus its payload: an RD WRITE with
// immediate data has BTH, RDETH, DETH, RETH, ImmDt and ICRC.
const headroom = roce.BTHLen + 4 + 8 + 16 + 4 + roce.ICRCLen

// Shard returns the adapter's shard.
func (h *HCA) Shard() *Shard { return h.shard }

// GSI returns the adapter's QP1. A queue pair of type GSI replaces it while
// that exists: the interface then receives nothing, its MADs wait in its queue
// until the queue pair is destroyed, and its requests time out.
func (h *HCA) GSI() *gsi.Interface { return h.shard.gsi }

// NodeGUID returns the GUID that identifies the adapter to peers.
func (h *HCA) NodeGUID() uint64 { return h.cfg.NodeGUID }

// Limits returns the limits of the adapter.
func (h *HCA) Limits() Limits { return h.cfg.Limits }

// ActiveMTU returns the largest path MTU of the port.
func (h *HCA) ActiveMTU() ib.MTU { return h.shard.env.Limits.ActiveMTU }

// PKeys returns the port's P_Key table, which the caller must not change.
func (h *HCA) PKeys() []ib.PKey { return h.cfg.PKeys }

// Counters returns the counts so far.
func (h *HCA) Counters() counters.Set { return *h.shard.counters }

// Count returns the live counters, for callers that check them after each step.
// The caller must not change them.
func (h *HCA) Count() *counters.Set { return h.shard.counters }

// Resources are the numbers of objects that an adapter has.
type Resources struct {
	PDs, CQs, SRQs, QPs, MRs int
	// RDDs and EECs are the domains and EE contexts of reliable datagrams.
	RDDs, EECs int
	// Conns are the connections and resolutions of the communication manager,
	// including those in TIMEWAIT.
	Conns int
}

// Resources counts the objects.
func (h *HCA) Resources() Resources {
	return Resources{
		PDs: len(h.pds), CQs: h.cqs, SRQs: h.srqs, QPs: h.shard.count, MRs: h.shard.env.Mem.Len(), Conns: h.shard.cm.Conns(),
		RDDs: len(h.rdds), EECs: h.shard.eecs.n,
	}
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
	return pd, nil
}

// valid reports whether p is a live protection domain of h.
func (h *HCA) valid(p *PD) bool { return p != nil && p.hca == h && h.pds[p.ID] == p }

// CreateCQ returns a completion queue of at least n entries. onEvent is
// called when an armed queue gets a matching completion; it must not block.
func (h *HCA) CreateCQ(n uint32, onEvent func()) (*qp.CQ, error) {
	switch {
	case n == 0 || n > h.cfg.Limits.MaxCQE:
		return nil, fmt.Errorf("CQ of %d entries: the adapter takes 1 to %d: %w", n, h.cfg.Limits.MaxCQE, ib.EINVAL)
	case h.cqs >= h.cfg.Limits.MaxCQ:
		return nil, ib.ErrInsufficientResources
	}
	c, err := qp.NewCQ(h.cfg.Queues, n, onEvent)
	if err == nil {
		h.cqs++
	}
	return c, err
}

// ResizeCQ changes the number of entries (V3).
func (h *HCA) ResizeCQ(c *qp.CQ, n uint32) error {
	if n == 0 || n > h.cfg.Limits.MaxCQE {
		return fmt.Errorf("CQ of %d entries: the adapter takes 1 to %d: %w", n, h.cfg.Limits.MaxCQE, ib.EINVAL)
	}
	return c.Resize(n)
}

// DestroyCQ destroys a completion queue; EBUSY while QPs complete to it.
func (h *HCA) DestroyCQ(c *qp.CQ) error {
	if n := c.Users(); n != 0 {
		return fmt.Errorf("completion queue serves %d work queues: %w", n, ib.ErrBusy)
	}
	h.cqs--
	c.Free()
	return nil
}

// Inject sets the function that RC responders call before they execute a
// request; nil, the default, for none.
func (h *HCA) Inject(f qp.Inject) { h.shard.env.Inject = f }

// OverflowCQ makes a CQ fail as if an entry had overflowed it (E18): CQ_ERR,
// and every QP that completes there goes to ERR. It reports whether the CQ had
// not failed before.
func (h *HCA) OverflowCQ(now clock.Instant, c *qp.CQ) bool {
	if !c.Fail() {
		return false
	}
	h.shard.env.Now = now
	h.cfg.Raise(qp.Event{Type: ib.EventCQErr, CQ: c})
	h.shard.cqFailed(now, c)
	return true
}

// AddressLost reports that the port has lost or regained a local address. Queue pairs and EE
// contexts whose path uses a lost address migrate if they are armed (V15); the others fail
// by their timers.
func (h *HCA) AddressLost(now clock.Instant, addr netip.Addr, lost bool) {
	h.shard.env.Now = now
	if !lost {
		delete(h.shard.env.Gone, addr)
		return
	}
	h.shard.env.Gone[addr] = true
	h.shard.qpns.each(func(q *qp.QP) {
		q.AddressLost(now, addr)
		h.shard.timers.arm(&q.End)
	})
	h.shard.eecs.each(func(e *qp.EEC) {
		e.AddressLost(now, addr)
		h.shard.timers.arm(&e.End)
	})
}

// Raise raises an asynchronous event without a cause in the engine.
func (h *HCA) Raise(e qp.Event) { h.cfg.Raise(e) }

// EachQP calls f for every QP but QP1.
func (h *HCA) EachQP(f func(*qp.QP)) { h.shard.qpns.each(f) }
