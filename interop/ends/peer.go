package ends

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/testagent"
)

// Peer is an adapter that the test agent uses for us.
type Peer struct {
	client *testagent.Client
	path   Path
	pd     *testagent.PD
	cq     *testagent.CQ
}

// DialPeer connects to the program at an address (HOST or HOST:PORT) and uses
// its adapter at the address data. If log is not nil, the requests and replies
// are written to it.
func DialPeer(ctx context.Context, address string, data netip.Addr, log io.Writer) (*Peer, error) {
	c, err := testagent.Dial(ctx, address, log)
	if err != nil {
		return nil, err
	}
	p := &Peer{client: c}
	d := c.Device()
	index, ok := d.GIDIndex(data)
	if !ok {
		_ = c.Close()
		return nil, fmt.Errorf("the adapter %s has no GID for %s: give its interface that address", d.Name, data)
	}
	p.path = Path{GID: ib.GIDFromAddr(data), Index: uint8(index)}
	if err := p.begin(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return p, nil
}

func (p *Peer) begin(ctx context.Context) (err error) {
	if p.pd, err = p.client.AllocPD(ctx); err == nil {
		p.cq, err = p.client.CreateCQ(ctx, cqEntries, true)
	}
	return err
}

// Name returns the name of the adapter, and the system it runs on.
func (p *Peer) Name() string {
	d := p.client.Device()
	return d.Name + " " + d.Kernel
}

// Path returns the address of the adapter.
func (p *Peer) Path() Path { return p.path }

// RegMR allocates memory and registers it.
func (p *Peer) RegMR(ctx context.Context, size uint64, access ib.Access) (Memory, error) {
	m, err := p.pd.RegMR(ctx, testagent.MRConfig{Size: size, Access: access})
	if err != nil {
		return nil, err
	}
	return peerMemory{m}, nil
}

// peerMemory is a region of the program's.
type peerMemory struct{ *testagent.MR }

func (m peerMemory) Addr() uint64  { return m.MR.Addr }
func (m peerMemory) RKey() ib.RKey { return m.MR.RKey }

// CreateQP returns a queue pair in RESET.
func (p *Peer) CreateQP(ctx context.Context, cfg QPConfig) (QP, error) {
	c := testagent.QPConfig{Type: cfg.Type, SendCQ: p.cq, Cap: cfg.Cap, AtomicWrite: cfg.AtomicWrite}
	if cfg.SRQ != nil {
		c.SRQ = cfg.SRQ.(peerSRQ).SRQ
	}
	q, err := p.pd.CreateQP(ctx, c)
	if err != nil {
		return nil, err
	}
	return peerQP{q}, nil
}

// CreateSRQ returns a shared receive queue.
func (p *Peer) CreateSRQ(ctx context.Context, cfg testagent.SRQConfig) (SRQ, error) {
	q, err := p.pd.CreateSRQ(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return peerSRQ{q}, nil
}

// CreateAH returns an address handle.
func (p *Peer) CreateAH(ctx context.Context, to Path) (AH, error) {
	return p.pd.CreateAH(ctx, ib.AHAttr{DGID: to.GID, SGIDIndex: p.path.Index, HopLimit: hopLimit, Port: 1})
}

// Window binds a memory window of type 2 by the queue pair, which must be in
// RTS, and waits for the completion. The region needs the right MW_BIND.
func (p *Peer) Window(ctx context.Context, qp QP, m Memory, off, n uint64) (ib.RKey, error) {
	mw, err := p.pd.AllocMW(ctx, 2)
	if err != nil {
		return 0, err
	}
	const wrid = 0xb12d
	key := mw.RKey&^0xff | (mw.RKey+1)&0xff
	err = qp.(peerQP).QP.PostSend(ctx, testagent.SendWR{
		WRID: wrid, Opcode: ib.WRBindMW, Flags: ib.SendSignaled, RKey: key,
		Bind: &testagent.Bind{MW: mw, MR: m.(peerMemory).MR, Off: off, Len: n, Access: ib.AccessRemoteWrite | ib.AccessRemoteRead},
	})
	if err != nil {
		return 0, err
	}
	wcs, err := p.Poll(ctx, 1, 10*time.Second)
	if err != nil {
		return 0, err
	}
	if len(wcs) != 1 || wcs[0].WRID != wrid || wcs[0].Status != ib.WCSuccess {
		return 0, fmt.Errorf("binding a memory window completed as %v", wcs)
	}
	return key, nil
}

// Poll takes n completions and waits for them.
func (p *Peer) Poll(ctx context.Context, n int, wait time.Duration) ([]ib.WC, error) {
	if n == 0 {
		return nil, nil
	}
	return p.cq.Poll(ctx, min(n, MaxPoll), wait)
}

// Arm asks for a completion event.
func (p *Peer) Arm(ctx context.Context, solicitedOnly bool) error {
	if _, err := p.cq.Notified(ctx, 0); err != nil {
		return err
	}
	return p.cq.Arm(ctx, solicitedOnly)
}

// Notified reports whether the event came.
func (p *Peer) Notified(ctx context.Context, wait time.Duration) (bool, error) {
	n, err := p.cq.Notified(ctx, wait)
	return n > 0, err
}

// Events returns the asynchronous events.
func (p *Peer) Events(ctx context.Context, wait time.Duration) ([]ib.EventType, error) {
	list, err := p.client.Events(ctx, wait)
	var all []ib.EventType
	for _, e := range list {
		all = append(all, e.Type)
	}
	return all, err
}

// Clear destroys every object.
func (p *Peer) Clear(ctx context.Context) error {
	if err := p.client.Reset(ctx); err != nil {
		return err
	}
	return p.begin(ctx)
}

// Close ends the connection.
func (p *Peer) Close() error { return p.client.Close() }
