package hca

import (
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/gsi"
)

// dropOf gives the reasons of QP1 their places among the adapter's counters.
var dropOf = [gsi.NumDrops]counters.Drop{
	gsi.DropService:  counters.DropService,
	gsi.DropAddress:  counters.DropAddress,
	gsi.DropPKey:     counters.DropPKey,
	gsi.DropQKey:     counters.DropQKey,
	gsi.DropOpcode:   counters.DropOpcode,
	gsi.DropLength:   counters.DropLength,
	gsi.DropVersion:  counters.DropMADVersion,
	gsi.DropAgent:    counters.DropMADAgent,
	gsi.DropResponse: counters.DropResponse,
	gsi.DropAnswer:   counters.DropMADAnswer,
}

// GSI returns the adapter's QP1. While a queue pair of type GSI exists, that
// is QP1 in its place: the interface receives nothing, and what it sends waits
// in its queue until the queue pair is destroyed; its requests time out.
func (h *HCA) GSI() *gsi.Interface { return h.shard.gsi }

// NodeGUID returns the number that names the adapter to peers.
func (h *HCA) NodeGUID() uint64 { return h.cfg.NodeGUID }

func newGSI(c *Config) *gsi.Interface {
	return gsi.New(gsi.Config{
		Addrs: c.Caps.Addrs, PKeys: c.PKeys, MigReq: c.Settings.MigReq, SrcPort: c.Caps.SrcPort, Trace: c.Trace,
	})
}

// receiveMAD hands the packet being processed to QP1.
func (s *Shard) receiveMAD(now clock.Instant, d *fabric.Datagram) {
	drop, ok := s.gsi.Receive(now, &s.in.Packet, d)
	if ok || drop.Admitted() {
		s.counters.RcvdPkts++
	}
	if !ok {
		s.counters.Drops[dropOf[drop]]++
	}
}

// transmitMADs gives QP1 its turn.
func (s *Shard) transmitMADs(now clock.Instant, b *fabric.Batch) {
	if !s.madsPending() {
		return
	}
	before := b.Packets()
	s.gsi.Transmit(now, b)
	s.counters.SentPkts += uint64(b.Packets() - before)
}

// madsPending reports whether QP1 has something to send and is not replaced.
func (s *Shard) madsPending() bool { return s.qp1 == nil && s.gsi.Pending() }
