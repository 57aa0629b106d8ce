package fault

import "net/netip"

// Mark is what a rule does to a packet that passes: for whoever records packets.
type Mark struct {
	Dir      Direction
	Src, Dst netip.Addr
	SrcPort  uint16
	Bytes    []byte // as it came; the port's, valid during the call
	Text     string // such as "lost by rule 'drop nth=3'"
	Lost     bool
	Changed  bool // what goes on has other bytes
	Before   int  // of one that arrives: packets that Receive has still to return before it
}

// deeds say what rules on packets do to them.
var deeds = [NumActions]string{
	Drop: "lost", Dup: "doubled", Delay: "delayed", Corrupt: "changed", Truncate: "cut", Reorder: "held back", Rate: "slowed down", Partition: "lost",
}

// mark tells what a rule does to a packet.
func (p *Port) mark(l *Live, seg []byte, s *Subject) {
	if p.cfg.Mark == nil {
		return
	}
	lost := l.Action == Drop || l.Action == Partition || p.fate.drop
	deed := deeds[l.Action]
	if lost {
		deed = deeds[Drop]
	}
	before := 0
	if s.Dir == In {
		before = p.ahead
		for i := range p.ready[p.given:] {
			before += p.ready[p.given+i].Segments()
		}
	}
	p.cfg.Mark(&Mark{
		Dir: s.Dir, Src: s.Src, Dst: s.Dst, SrcPort: s.SrcPort, Bytes: seg, Text: deed + " by rule '" + l.text + "'",
		Before: before, Lost: lost, Changed: l.Action == Corrupt || l.Action == Truncate,
	})
}
