package hca

import (
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/qp"
)

// Access for external tests to internals of the adapter.

// QPNRest is for how many destroyed queue pairs a number rests.
const QPNRest = numberRest

// Cfg returns the configuration, to change.
func (h *HCA) Cfg() *Config { return &h.cfg }

// Env returns what the queue pairs share.
func (h *HCA) Env() *qp.Env { return &h.shard.env }

// QPs returns the number of queue pairs.
func (s *Shard) QPs() int { return s.count }

// Lose makes a queue pair unreachable.
func (s *Shard) Lose(q *qp.QP) { s.qpns.remove(uint32(q.Num())) }

// Attachments returns the number of multicast groups and of queue pairs in
// them.
func (s *Shard) Attachments() int { return len(s.mcast.groups) + s.mcast.attached }

// ForgetPrefix makes the next segment begin a datagram.
func (s *Shard) ForgetPrefix() { s.verifier.Begin() }

// Verify checks the ICRC of segment k of d, which is the packet at hand.
func (s *Shard) Verify(d *fabric.Datagram, seg []byte, k int) bool { return s.verify(d, seg, k) }
