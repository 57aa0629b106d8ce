package hca

import (
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/internal/packet"
)

// GSI returns the adapter's QP1. While a queue pair of type GSI exists, that
// is QP1 in its place: the interface receives nothing, and what it sends waits
// in its queue until the queue pair is destroyed; its requests time out.
func (h *HCA) GSI() *gsi.Interface { return h.shard.gsi }

// NodeGUID returns the number that names the adapter to peers.
func (h *HCA) NodeGUID() uint64 { return h.cfg.NodeGUID }

func newGSI(c *Config, out *packet.Writer) *gsi.Interface {
	return gsi.New(gsi.Config{
		Addrs: c.Caps.Addrs, PKeys: c.PKeys, MigReq: c.Settings.MigReq, SrcPort: c.Caps.SrcPort, Out: out,
	})
}

// transmitMADs gives QP1 its turn.
func (s *Shard) transmitMADs(now clock.Instant, b *fabric.Batch) {
	if s.madsPending() {
		s.gsi.Transmit(now, b)
	}
}

// madsPending reports whether QP1 has something to send and is not replaced.
func (s *Shard) madsPending() bool { return s.qp1 == nil && s.gsi.Pending() }
