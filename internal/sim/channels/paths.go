package channels

import (
	"math/rand/v2"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
)

// route is the model of the paths of an end.
type route struct {
	at     int           // index of the current path
	moved  clock.Instant // time of the move to it
	asked  bool          // REARM was requested since then,
	since  clock.Instant // at this time
	failed bool          // PATH_MIG_ERR was raised since then
	told   bool          // a call at this instant makes it migrate
}

// cut is a path that is cut for a while.
type cut struct {
	path  int
	until clock.Instant
}

// addressOf returns the end's address on a path.
func (e *end) addressOf(path int) *ib.AHAttr {
	return &ib.AHAttr{DGID: ib.GIDFromAddr(e.peer.n.Addrs[path]), SGIDIndex: uint8(path), HopLimit: 64, Port: 1}
}

// isCut reports whether a path of the channel is cut.
func (c *channel) isCut(now clock.Instant, path int) bool {
	return now < c.cut.until && path == c.cut.path
}

// left reports whether a datagram arrives over a path that the end does not use
// and to which a packet cannot make it migrate.
func (e *end) left(d *fabric.Datagram) bool {
	return !e.route.asked && d.Dst != e.n.Addrs[e.route.at]
}

// armed reports whether both ends of the channel may migrate, and will follow when
// the other one does. A migration while the other end is not ready for it would end
// the channel, so programs do not do it.
func (c *channel) armed() bool {
	for _, e := range c.ends {
		if e.eec.State() != ib.RTS || e.eec.Query().PathMigState != ib.ARMED {
			return false
		}
	}
	return true
}

// rearm loads the unused path of an end and requests REARM, once no packet that
// shows an earlier migration is in the network. Connection managers agree on a path,
// so both ends use the same one, which works.
func (e *end) rearm() {
	w := e.n.w
	if e.route.asked || e.route.at != e.peer.route.at || e.eec.State() != ib.RTS || w.Now < e.ch.cut.until {
		return
	}
	if over := max(e.route.moved, e.peer.route.moved).Add(lateness + latency); w.Now < over {
		w.pause = over.Sub(w.Now)
		return
	}
	w.Mark("V15 REARM")
	e.route.asked, e.route.since, e.route.failed = true, w.Now, false
	w.Must(e.modify(&ib.QPAttr{
		State: ib.RTS, PathMigState: ib.REARM, AltPort: 1, AltTimeout: timeout, AltAV: *e.addressOf(1 - e.route.at),
	}, ib.AttrState|ib.AttrAltPath|ib.AttrPathMigState))
}

// migrate makes an end migrate, unless its peer has already made it migrate.
func (e *end) migrate() {
	if !e.route.asked {
		return
	}
	e.route.told = true
	e.n.w.Must(e.modify(&ib.QPAttr{State: ib.RTS, PathMigState: ib.MIGRATED}, ib.AttrState|ib.AttrPathMigState))
	e.route.told = false
}

// rove performs a random action on the paths of a channel.
func (w *world) rove(r *rand.Rand) {
	c := w.channels[r.IntN(len(w.channels))]
	first := r.IntN(2)
	a, b := c.ends[first], c.ends[1-first]
	switch k := r.IntN(8); {
	case !c.armed():
		a.rearm()
		if r.IntN(4) > 0 {
			b.rearm()
		}
	case k < 4:
		w.cutPath(c, r)
	case k < 5:
		a.migrate()
	case k < 7:
		w.Mark("V15 both ends at once")
		a.migrate()
		b.migrate()
	default:
		a.loseAddress()
	}
}

// cutPath cuts the path of a channel: too briefly to be noticed, or until all
// retries are exhausted, for which the programs wait.
func (w *world) cutPath(c *channel, r *rand.Rand) {
	w.Mark("V15 path cut")
	long := 9 * ib.AckTimeout(timeout)
	c.cut = cut{c.ends[0].route.at, w.Now.Add(time.Duration(r.Int64N(int64(long))))}
	if r.IntN(3) > 0 {
		c.cut.until, w.pause = w.Now.Add(long), long
	}
}

// loseAddress removes the address of the end's path from its adapter's port and
// restores it at once: armed ends have migrated by then. It acts only if the ends
// of other channels with that address may migrate too.
func (e *end) loseAddress() {
	w, n := e.n.w, e.n
	lost := n.Addrs[e.route.at]
	for _, o := range n.ends {
		if o.route.at == e.route.at && o.route.asked && !o.ch.armed() {
			return
		}
	}
	w.Mark("V15 address lost")
	for _, o := range n.ends {
		o.route.told = o.route.at == e.route.at
	}
	n.HCA.Single().AddressLost(w.Now, lost, true)
	for _, o := range n.ends {
		o.route.told = false
	}
	n.HCA.Single().AddressLost(w.Now, lost, false)
	n.poll()
}

// migrated checks that an end was allowed to migrate: its program had requested
// REARM, and the cause was a call, a cut of its path, or a migration of its peer.
func (e *end) migrated() {
	w, to := e.n.w, 1-e.route.at
	w.Mark("V15 PATH_MIG")
	wasCut := e.ch.cut.path == e.route.at && e.ch.cut.until > e.route.since
	switch {
	case !e.route.asked:
		w.Fail("path", "adapter %d: EE context %v migrates, and was not asked to be ready for it", e.n.Index, e.eec.Num())
	case !e.route.told && !wasCut && e.peer.route.at != to:
		w.Fail("path", "adapter %d: EE context %v migrates without a cause", e.n.Index, e.eec.Num())
	}
	e.route = route{at: to, moved: w.Now}
}

// astray handles PATH_MIG_ERR of an end: at most one packet from before both ends
// requested REARM may cause it.
func (e *end) astray() {
	if !e.route.asked || e.route.failed {
		e.n.w.Fail("path", "adapter %d: EE context %v has PATH_MIG_ERR, which it had before, or is not armed", e.n.Index, e.eec.Num())
	}
	e.route.failed = true
}
