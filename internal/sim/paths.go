package sim

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/softhca/softhca/ib"
)

// paths is the model of the two paths of an end's connection.
type paths struct {
	e     *end
	at    int  // index of the path in use
	asked bool // REARM was requested on this path
}

// numPaths is the number of paths of a connection. The addresses of a node are
// those of its first path, then those of its second.
const numPaths = 2

// newPath is the cause of a retransmission due to migration.
const newPath = "path migration"

// gid returns the index of the end's address on its current path.
func (p *paths) gid() int { return p.gidOn(p.at) }

func (p *paths) gidOn(path int) int {
	if p.e.pair.v6 {
		return numPaths*path + 1
	}
	return numPaths * path
}

// route identifies the end that sent a packet.
type route struct {
	from *node
	to   netip.Addr
	dest ib.QPN
}

// route returns that of the end.
func (p *paths) route() route {
	return route{p.e.node, p.e.peer.node.Addrs[p.gid()], p.e.peer.num}
}

// allRoutes returns the end's routes, on each path.
func (p *paths) allRoutes() (all []route) {
	for path := range numPaths {
		all = append(all, route{p.e.node, p.e.peer.node.Addrs[p.gidOn(path)], p.e.peer.num})
	}
	return all
}

// left reports whether a packet to an address of the end arrives over a path
// that the end does not use and to which a packet cannot make it migrate.
func (p *paths) left(dst netip.Addr) bool {
	return !p.asked && dst != p.e.node.Addrs[p.gid()]
}

// rearm loads the other path and requests REARM. Connection managers agree on
// it, so both ends use the same path.
func (p *paths) rearm() {
	e := p.e
	if e.state != ib.RTS || p.asked || e.peer.paths.at != p.at {
		return
	}
	a := ib.QPAttr{
		State: ib.RTS, PathMigState: ib.REARM, AltPort: 1, AltTimeout: e.terms.timeout,
		AltAV: e.peer.node.destination(p.gidOn(1 - p.at)),
	}
	p.asked = true
	e.w.Mark("V15 REARM")
	e.modify(&a, ib.AttrState|ib.AttrAltPath|ib.AttrPathMigState)
}

// migrate makes an armed end move to its alternate path.
func (p *paths) migrate() {
	if p.e.state == ib.RTS && p.e.qp.Query().PathMigState == ib.ARMED {
		p.e.modify(&ib.QPAttr{PathMigState: ib.MIGRATED}, ib.AttrPathMigState)
	}
}

// changePath is called when the end has migrated. It reports whether that was
// possible.
func (p *paths) changePath() bool {
	asked := p.asked
	p.at, p.asked = 1-p.at, false
	p.e.pair.stirred()
	return asked
}

// cutPath cuts an address off for a while.
func (w *world) cutPath(r *rand.Rand) {
	n := w.nodes[r.IntN(len(w.nodes))]
	w.down[n.Addrs[r.IntN(len(n.Addrs))]] = w.Now.Add(time.Duration(r.Int64N(int64(200 * time.Millisecond))))
}

// loseAddress removes an address from an adapter's port until addressesBack.
func (w *world) loseAddress(r *rand.Rand) {
	n := w.nodes[r.IntN(len(w.nodes))]
	a := n.Addrs[r.IntN(len(n.Addrs))]
	n.lost[a] = true
	w.down[a] = w.Now.Add(time.Duration(r.Int64N(int64(20 * time.Millisecond))))
	n.HCA.Single().AddressLost(w.Now, a, true)
	n.wake(nil)
}

// addressesBack restores the addresses of all adapters.
func (w *world) addressesBack() {
	for _, n := range w.nodes {
		for _, a := range n.Addrs {
			if n.lost[a] {
				delete(n.lost, a)
				n.HCA.Single().AddressLost(w.Now, a, false)
			}
		}
		n.wake(nil)
	}
}
