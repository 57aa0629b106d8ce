package ends

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/testagent"
	"github.com/softhca/softhca/roce"
	"github.com/softhca/softhca/verbs"
)

// lastRecords is how many trace records our end keeps.
const lastRecords = 400

// Ours is an adapter of ours.
type Ours struct {
	hca     *verbs.Context
	path    Path
	pd      *verbs.PD
	channel *verbs.CompChannel
	cq      *verbs.CQ
	qps     []*verbs.QP
	srqs    []*verbs.SRQ
	ahs     []*verbs.AH
	mrs     []*verbs.MR
	mws     []*ourMW
	opened  time.Time
	closed  func(Last) error // may be nil

	mu    sync.Mutex // guards the fields below, which the tracer fills
	naks  []NAK
	lines []string
	next  int // index in lines of the next record, once there are lastRecords
}

// NAK is a NAK seen on the wire.
type NAK struct {
	Sent     bool   // by us
	QPN      ib.QPN // its destination if we sent it, else our queue pair
	PSN      ib.PSN
	Syndrome roce.Syndrome
}

// OpenOurs opens an adapter of ours with the configuration, except its Trace,
// which the end uses itself. Its address is the first of Addr.
func OpenOurs(cfg verbs.Config) (*Ours, error) {
	o := &Ours{opened: time.Now()}
	cfg.Trace = o.trace
	hca, err := verbs.Open(cfg)
	if err != nil {
		return nil, err
	}
	o.hca, o.path = hca, Path{GID: hca.QueryGID(0)}
	if err := o.begin(); err != nil {
		return nil, errors.Join(err, hca.Close())
	}
	return o, nil
}

func (o *Ours) begin() (err error) {
	if o.pd, err = o.hca.AllocPD(); err != nil {
		return err
	}
	o.channel = verbs.NewCompChannel(1)
	o.cq, err = o.hca.CreateCQ(cqEntries, o.channel)
	return err
}

// Context returns the adapter.
func (o *Ours) Context() *verbs.Context { return o.hca }

// Name returns the name of this implementation.
func (o *Ours) Name() string { return "softhca" }

// Path returns the first address of the adapter.
func (o *Ours) Path() Path { return o.path }

func (o *Ours) trace(r *verbs.TraceRecord) {
	o.mu.Lock()
	defer o.mu.Unlock()
	line := fmt.Sprintf("%9.6f %s", r.At.Seconds(), r)
	if len(o.lines) < lastRecords {
		o.lines = append(o.lines, line)
	} else {
		o.lines[o.next%lastRecords] = line
	}
	o.next++
	if r.Kind != verbs.TracePacketOut && r.Kind != verbs.TracePacketIn || len(o.naks) == lastRecords {
		return
	}
	var p roce.Packet
	if r.Len == 0 || p.ParseHeaders(r.Header[:min(r.Len, len(r.Header))]) != roce.FaultNone || p.BTH.Opcode != roce.RCAcknowledge {
		return
	}
	if s := p.AETH.Syndrome; !s.IsACK() {
		o.naks = append(o.naks, NAK{Sent: r.Kind == verbs.TracePacketOut, QPN: p.BTH.DestQP, PSN: p.BTH.PSN, Syndrome: s})
	}
}

// NAKs returns the NAKs since the last Clear, including RNR NAKs, at most a few
// hundred.
func (o *Ours) NAKs() []NAK {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.naks)
}

// Records returns the last records of the trace, oldest first, a line each.
func (o *Ours) Records() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	at := 0
	if len(o.lines) == lastRecords {
		at = o.next % lastRecords
	}
	return slices.Concat(o.lines[at:], o.lines[:at])
}

// RegMR allocates memory and registers it.
func (o *Ours) RegMR(_ context.Context, size uint64, access ib.Access) (Memory, error) {
	m := newMemory(size)
	mr, err := o.pd.RegMR(m.region, access)
	if err != nil {
		return nil, err
	}
	m.mr = mr
	o.mrs = append(o.mrs, mr)
	return m, nil
}

// CreateQP returns a queue pair in RESET.
func (o *Ours) CreateQP(_ context.Context, cfg QPConfig) (QP, error) {
	init := verbs.QPInitAttr{Type: cfg.Type, SendCQ: o.cq, RecvCQ: o.cq, Cap: cfg.Cap}
	if cfg.SRQ != nil {
		init.SRQ = cfg.SRQ.(ourSRQ).q
	}
	q, err := o.pd.CreateQP(&init)
	if err != nil {
		return nil, err
	}
	o.qps = append(o.qps, q)
	return ourQP{q}, nil
}

// CreateSRQ returns a shared receive queue.
func (o *Ours) CreateSRQ(_ context.Context, cfg testagent.SRQConfig) (SRQ, error) {
	q, err := o.pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: cfg.MaxWR, MaxSGE: cfg.MaxSGE, Limit: cfg.Limit})
	if err != nil {
		return nil, err
	}
	o.srqs = append(o.srqs, q)
	return ourSRQ{q}, nil
}

// CreateAH returns an address handle for a peer.
func (o *Ours) CreateAH(_ context.Context, to Path) (AH, error) {
	ah, err := o.pd.CreateAH(ib.AHAttr{DGID: to.GID, SGIDIndex: o.path.Index, HopLimit: hopLimit, Port: 1})
	if err != nil {
		return nil, err
	}
	o.ahs = append(o.ahs, ah)
	return ah, nil
}

// Window registers a part of the region again, as a region that the peer may
// invalidate.
func (o *Ours) Window(_ context.Context, _ QP, m Memory, off, n uint64) (ib.RKey, error) {
	b, err := m.(*memory).part(off, n)
	if err != nil {
		return 0, err
	}
	mr, err := o.pd.RegMREx(&verbs.MRAttr{Buf: b, Access: ib.AccessLocalWrite | ib.AccessRemote, Invalidatable: true})
	if err != nil {
		return 0, err
	}
	o.mrs = append(o.mrs, mr)
	return mr.RKey(), nil
}

// Poll takes n completions and waits for them.
func (o *Ours) Poll(ctx context.Context, n int, wait time.Duration) ([]ib.WC, error) {
	all := make([]ib.WC, min(n, MaxPoll))
	got := 0
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		k, err := o.cq.Poll(all[got:])
		if got += k; err != nil || got == len(all) {
			return all[:got], err
		}
		if k > 0 {
			continue
		}
		if err := o.cq.ReqNotify(false); err != nil {
			return all[:got], err
		}
		if k, err = o.cq.Poll(all[got:]); err != nil {
			return all[:got], err
		}
		if got += k; k > 0 {
			continue
		}
		if _, err := o.channel.Get(waiting); err != nil {
			return all[:got], context.Cause(ctx)
		}
	}
}

// Arm asks for a completion event.
func (o *Ours) Arm(_ context.Context, solicitedOnly bool) error {
	for len(o.channel.C()) > 0 {
		<-o.channel.C()
	}
	return o.cq.ReqNotify(solicitedOnly)
}

// Notified reports whether the event came.
func (o *Ours) Notified(ctx context.Context, wait time.Duration) (bool, error) {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	_, err := o.channel.Get(waiting)
	return err == nil, context.Cause(ctx)
}

// Events returns the asynchronous events.
func (o *Ours) Events(ctx context.Context, wait time.Duration) ([]ib.EventType, error) {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var all []ib.EventType
	for {
		e, err := o.hca.PollAsyncEvent()
		if errors.Is(err, syscall.EAGAIN) {
			if len(all) > 0 || wait <= 0 {
				return all, nil
			}
			if e, err = o.hca.GetAsyncEvent(waiting); waiting.Err() != nil {
				return nil, context.Cause(ctx)
			}
		}
		if err != nil {
			return all, err
		}
		e.Ack()
		all = append(all, e.Type)
	}
}

// Clear destroys every object.
func (o *Ours) Clear(ctx context.Context) error {
	_, err := o.Events(ctx, 0)
	all := []error{err}
	for _, q := range o.qps {
		if err := q.Destroy(); !errors.Is(err, syscall.EINVAL) {
			all = append(all, err)
		}
	}
	for _, a := range o.ahs {
		all = append(all, a.Destroy())
	}
	for _, q := range o.srqs {
		all = append(all, q.Destroy())
	}
	for _, m := range o.mws {
		if m.mw != nil {
			all = append(all, m.mw.Dealloc())
		}
	}
	for _, m := range o.mrs {
		all = append(all, m.Dereg())
	}
	o.qps, o.ahs, o.srqs, o.mrs, o.mws = nil, nil, nil, nil, nil
	all = append(all, o.cq.Destroy(), o.pd.Dealloc())
	_, err = o.Events(ctx, 0)
	all = append(all, err, o.begin())
	o.mu.Lock()
	defer o.mu.Unlock()
	o.naks, o.lines, o.next = nil, nil, 0
	return errors.Join(all...)
}

// Last is an adapter's state just before it was closed.
type Last struct {
	Opened   time.Time
	At       time.Time
	Counters []verbs.Counter
	Faults   []verbs.FaultStat
}

// OnClose has f called once the adapter is closed. An error of f becomes one of
// Close.
func (o *Ours) OnClose(f func(Last) error) { o.closed = f }

// Close closes the adapter.
func (o *Ours) Close() (err error) {
	last := Last{Opened: o.opened, At: time.Now(), Faults: o.hca.FaultStats()}
	last.Counters, err = o.hca.Counters()
	if err = errors.Join(err, o.hca.Close()); err == nil && o.closed != nil {
		err = o.closed(last)
	}
	return err
}

// Addr returns the address of a path.
func (p Path) Addr() netip.Addr { return p.GID.Addr() }
