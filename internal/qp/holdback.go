package qp

import (
	"github.com/softhca/softhca/internal/nasty"
	"github.com/softhca/softhca/roce"
)

// heldBack is the payload of an earlier packet of the current message that a receiver writes
// after that of the last packet (nasty.Placement).
type heldBack struct {
	held bool
	off  uint32 // in the message
	data []byte // a copy
}

// holdBack keeps the payload of a packet back, or reports false. It keeps that of at most one packet
// of a message, which is not the last.
func (r *receiver) holdBack(p *Packet) bool {
	d := r.ep.env.Nasty
	if !d.Has(nasty.Placement) {
		return false
	}
	if p.Info.Flags&roce.FlagStart != 0 {
		r.back.held = false // that of a message without an end
	}
	if r.back.held || p.Info.Flags&roce.FlagEnd != 0 || !d.OneIn(nasty.Placement, 3) {
		return false
	}
	r.back = heldBack{true, r.received, append(r.back.data[:0], p.Payload...)}
	return true
}

// rest returns the payload that was held back, and its offset in the message, after a pause. The
// payload of the last packet has been written. It stays until the next message: a last packet that
// is dropped as doubtful comes again.
func (r *receiver) rest() (b []byte, off uint32) {
	r.ep.env.Mem.Pause()
	return r.back.data, r.back.off
}
