package gsi

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/packet"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// quantum is the maximum number of MADs per turn.
const quantum = 16

// Transmit appends up to a quantum of the MADs that wait at a port, numbered from 1, to the batch.
// It reports whether there are more.
func (g *Interface) Transmit(now clock.Instant, port uint8, b *fabric.Batch) (more bool) {
	q := &g.queues[port-1]
	for range quantum {
		e := q.front()
		if e == nil {
			return false
		}
		if !g.send(now, b, e) {
			return true
		}
		q.pop()
	}
	return q.len() > 0
}

// send appends one MAD as Linux sends it: every field of BTH and DETH is the
// same except the PSN, which counts datagrams and is never checked. It reports
// false when the batch is full.
func (g *Interface) send(now clock.Instant, b *fabric.Batch, e *outgoing) bool {
	out := g.cfg.Out
	out.Headers.BTH = roce.BTH{
		Opcode: roce.UDSendOnly, MigReq: g.cfg.MigReq, PKey: e.route.pkey, DestQP: e.route.qpn, AckReq: true, PSN: g.psn,
	}
	out.Headers.DETH = roce.DETH{QKey: ib.QKeyGSI, SrcQP: ib.QPNGSI}
	seg, payload, id := out.Append(b, &e.route.path, mad.Size)
	if seg == nil {
		return false
	}
	copy(payload, e.mad[:])
	out.Seal(now, ib.QPNGSI, seg, packet.Prefix(&e.route.path, len(seg), id))
	g.psn = g.psn.Next()
	g.counters.Sent++
	return true
}
