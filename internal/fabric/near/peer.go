package near

import (
	"sync/atomic"
	"time"
)

// peer is a process that the port has met.
type peer struct {
	Link // the thread of the shard uses Out, and the port's lock guards In
	key  key

	since   time.Time // when the port adopted it
	touched bool      // is among Port.touched
	blocked bool      // the ring is full
	filled  time.Time // when blocked was set
	stopped bool      // for so long that what is sent is lost
	used    uint64    // counts up to the last run to it
	fresh   bool      // packets that the network brought before the meeting may still come
	before  uint64    // datagrams of the network before the meeting
	drained bool      // nothing more will be read
	garbled bool      // it wrote garbage

	switched time.Time // when this process noticed that the peer sends all to its ring
	barred   bool      // packets in its name from the network are refused

	id   int32       // for the system
	gone atomic.Bool // the peer has ended
	left atomic.Bool // this process sends nothing more, and has said so; the shard's thread sets it
}

// sends reports whether packets may be sent to the peer.
func (r *peer) sends() bool { return !r.left.Load() && !r.gone.Load() }

// leave ends the ring to the peer. The peer can still send.
func (r *peer) leave() {
	if r.left.Load() {
		return
	}
	r.left.Store(true)
	if r.Out.End() {
		r.wake()
	}
}

// wake ends the wait of the peer. If the peer has ended, the system reports it.
func (r *peer) wake() { _ = r.Wake() }
