package channels

import (
	"math/rand/v2"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
)

// numPaths is how many paths a channel has: from each address of an adapter to
// that of the other one with the same index.
const numPaths = 2

// route is what the model knows of the paths of an end.
type route struct {
	at     int           // which one it is on
	moved  clock.Instant // when it came there
	asked  bool          // REARM was asked for since,
	since  clock.Instant // then
	failed bool          // PATH_MIG_ERR was told since
	told   bool          // a call of this instant has it move
}

// cut is a path on which nothing gets through for a while.
type cut struct {
	path  int
	until clock.Instant
}

// addressOf returns the end's address on a path.
func (e *end) addressOf(path int) *ib.AHAttr {
	return &ib.AHAttr{DGID: ib.GIDFromAddr(e.peer.n.addrs[path]), SGIDIndex: uint8(path), HopLimit: 64, Port: 1}
}

// isCut reports whether nothing gets through on a path of the channel.
func (c *channel) isCut(now clock.Instant, path int) bool {
	return now < c.cut.until && path == c.cut.path
}

// left reports whether a datagram comes over a path that the end is not on and
// cannot be called to.
func (e *end) left(d *fabric.Datagram) bool {
	return !e.route.asked && d.Dst != e.n.addrs[e.route.at]
}

// armed reports whether both ends of the channel may migrate, and will follow when
// the other one does. Whoever migrates, or is made to, while the other is not ready
// for it ends the channel, and no program does so.
func (c *channel) armed() bool {
	for _, e := range c.ends {
		if e.eec.State() != ib.RTS || e.eec.Query().PathMigState != ib.ARMED {
			return false
		}
	}
	return true
}

// rearm loads the path that an end is not on and asks for REARM, as soon as no
// packet is under way any more that tells of an earlier migration. Managers agree on
// a path, so both ends are on the same one, and it works.
func (e *end) rearm() {
	w := e.n.w
	if e.route.asked || e.route.at != e.peer.route.at || e.eec.State() != ib.RTS || w.now < e.ch.cut.until {
		return
	}
	if over := max(e.route.moved, e.peer.route.moved).Add(lateness + latency); w.now < over {
		w.pause = over.Sub(w.now)
		return
	}
	w.mark("V15 REARM")
	e.route.asked, e.route.since, e.route.failed = true, w.now, false
	w.must(e.modify(&ib.QPAttr{
		State: ib.RTS, PathMigState: ib.REARM, AltPort: 1, AltTimeout: timeout, AltAV: *e.addressOf(1 - e.route.at),
	}, ib.AttrState|ib.AttrAltPath|ib.AttrPathMigState))
}

// migrate has an end move by itself. Its peer may have had it move already.
func (e *end) migrate() {
	if !e.route.asked {
		return
	}
	e.route.told = true
	e.n.w.must(e.modify(&ib.QPAttr{State: ib.RTS, PathMigState: ib.MIGRATED}, ib.AttrState|ib.AttrPathMigState))
	e.route.told = false
}

// rove does something with the paths of a channel.
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
		w.mark("V15 both ends at once")
		a.migrate()
		b.migrate()
	default:
		a.loseAddress()
	}
}

// cutPath has nothing get through on the path that a channel is on: too short for
// anybody to notice, or for so long that all retries are used up, and the programs
// wait for that.
func (w *world) cutPath(c *channel, r *rand.Rand) {
	w.mark("V15 path cut")
	long := 9 * ib.AckTimeout(timeout)
	c.cut = cut{c.ends[0].route.at, w.now.Add(time.Duration(r.Int64N(int64(long))))}
	if r.IntN(3) > 0 {
		c.cut.until, w.pause = w.now.Add(long), long
	}
}

// loseAddress takes the address of the end's path from its adapter's port, which
// has it again at once: whoever is armed has moved by then. Ends of other channels
// with that address move too, if all of them may.
func (e *end) loseAddress() {
	w, n := e.n.w, e.n
	lost := n.addrs[e.route.at]
	for _, o := range n.ends {
		if o.route.at == e.route.at && o.route.asked && !o.ch.armed() {
			return
		}
	}
	w.mark("V15 address lost")
	for _, o := range n.ends {
		o.route.told = o.route.at == e.route.at
	}
	n.hca.AddressLost(w.now, lost, true)
	for _, o := range n.ends {
		o.route.told = false
	}
	n.hca.AddressLost(w.now, lost, false)
	n.poll()
}

// migrated is told that an end has moved. It may if its program has asked for that,
// and does if a call says so, if its path was cut since, or if its peer has moved.
func (e *end) migrated() {
	w, to := e.n.w, 1-e.route.at
	w.mark("V15 PATH_MIG")
	wasCut := e.ch.cut.path == e.route.at && e.ch.cut.until > e.route.since
	switch {
	case !e.route.asked:
		w.fail("path", "adapter %d: EE context %v migrates, and was not asked to be ready for it", e.n.index, e.eec.Num())
	case !e.route.told && !wasCut && e.peer.route.at != to:
		w.fail("path", "adapter %d: EE context %v migrates without a cause", e.n.index, e.eec.Num())
	}
	e.route = route{at: to, moved: w.now}
}

// astray is told that the end's peer seems to have moved elsewhere: a packet from
// before both asked for REARM says so, at the most once.
func (e *end) astray() {
	if !e.route.asked || e.route.failed {
		e.n.w.fail("path", "adapter %d: EE context %v has PATH_MIG_ERR, which it had before, or is not armed", e.n.index, e.eec.Num())
	}
	e.route.failed = true
}
