package near

import (
	"net/netip"
	"slices"
	"time"

	"github.com/softhca/softhca/internal/fabric"
)

// settleTime is how long after a peer has switched to its ring its earlier packets may still arrive
// by the network: the kernel may hold them back while the processors are busy.
const settleTime = 200 * time.Millisecond

// pair is the addresses of this process and of peers.
type pair struct{ local, remote netip.Addr }

// barred are the peers at a pair of addresses whose packets do not come by the network.
type barred struct {
	slots fabric.Slots // never changed: datagrams point to it
	peers []*peer
}

// returned reports whether the peer may send by the network: it has said so, or has ended, or
// this process has left, which makes it do either.
func (r *peer) returned() bool { return r.left.Load() || r.gone.Load() || !r.In.Switched() }

// screen marks datagrams that the wrapped port has returned, or notes that it returned none. A peer
// announces its return in its ring before it sends by the network, so this looks there after the
// datagrams were read.
func (p *Port) screen(ds []fabric.Datagram) {
	if len(ds) == 0 {
		p.bar(p.system.Now)
		return
	}
	if len(p.barred) == 0 {
		return
	}
	for i := range ds {
		at := pair{ds[i].Dst, ds[i].Src}
		b := p.barred[at]
		if b != nil && slices.ContainsFunc(b.peers, (*peer).returned) {
			p.unbar()
			b = p.barred[at]
		}
		if b != nil {
			ds[i].Barred = &b.slots
		}
	}
}

// bar bars the peers that switched to their rings settleTime ago or earlier. The wrapped port was
// found empty, so everything that they sent before has been read.
func (p *Port) bar(now func() time.Time) {
	changed := false
	for _, r := range p.peers {
		switch {
		case r.barred || r.returned():
		case r.switched.IsZero():
			r.switched = now()
		case now().Sub(r.switched) >= settleTime:
			r.barred, changed = true, true
		}
	}
	if changed {
		p.gatherBarred()
	}
}

// unbar lets peers that have returned send by the network again.
func (p *Port) unbar() {
	for _, r := range p.peers {
		if r.barred && r.returned() {
			r.barred = false
		}
	}
	p.gatherBarred()
}

// gatherBarred makes the table of the barred peers.
func (p *Port) gatherBarred() {
	p.barred = make(map[pair]*barred)
	for _, r := range p.peers {
		if !r.barred {
			continue
		}
		at := pair{r.key.local, r.key.remote}
		b := p.barred[at]
		if b == nil {
			b = new(barred)
			p.barred[at] = b
		}
		b.slots.Add(r.key.slot)
		b.peers = append(b.peers, r)
	}
}
