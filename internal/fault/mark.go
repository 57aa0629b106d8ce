package fault

import "net/netip"

// Mark describes the effect of a rule on a packet, for packet capture.
type Mark struct {
	Dir      Direction
	Src, Dst netip.Addr
	SrcPort  uint16
	Bytes    []byte // unchanged; owned by the port, valid during the call
	Text     string // such as "lost by rule 'drop nth=3'"
	Lost     bool
	Changed  bool // the packet's bytes were changed
	Before   int  // incoming: number of packets that Receive returns before it
}

// effects are the effects of rules on packets, in words.
var effects = [NumActions]string{
	Drop: "lost", Dup: "doubled", Delay: "delayed", Corrupt: "changed", Truncate: "cut", Reorder: "held back", Rate: "slowed down", Partition: "lost",
	Gone: "not passed on, as the adapter fails,", Kill: "not passed on, as the process is killed,", Stop: "late, as the process is stopped,",
}

// mark reports the effect of a rule on a packet.
func (p *Port) mark(l *Live, seg []byte, s *Subject) {
	if p.cfg.Mark == nil {
		return
	}
	lost := l.Action == Drop || l.Action == Partition || l.Action == Kill || l.Action == Gone || p.verdict.drop
	effect := effects[l.Action]
	if lost && l.Action != Kill && l.Action != Gone {
		effect = effects[Drop]
	}
	before := 0
	if s.Dir == In {
		before = p.ahead
		for i := range p.ready[p.given:] {
			before += p.ready[p.given+i].Segments()
		}
	}
	p.cfg.Mark(&Mark{
		Dir: s.Dir, Src: s.Src, Dst: s.Dst, SrcPort: s.SrcPort, Bytes: seg, Text: effect + " by rule '" + l.text + "'",
		Before: before, Lost: lost, Changed: l.Action == Corrupt || l.Action == Truncate,
	})
}
