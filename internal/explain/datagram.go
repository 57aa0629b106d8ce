package explain

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/roce"
)

// stream is the packets of one side of an unreliable connection. Nothing
// answers them.
type stream struct {
	seen   bool
	next   ib.PSN
	inside bool // a message has begun, and not ended
	broken bool // a part of a message was missing; until the next one begins
	holed  bool // in the message that has begun a PSN was skipped
	op     op   // that message
	done   tally
}

// unreliable follows a packet of UC.
func (f *Follower) unreliable(p *pcapfile.Packet) {
	fl := f.connected(p)
	c, s := fl.conv, &fl.conv.streams[fl.side]
	if f.sight.copy {
		c.copied(f, fl.side)
		return
	}
	psn, flags := f.pkt.BTH.PSN, f.pkt.Info.Flags
	c.learnMTU(&f.pkt)
	d := psn.Diff(s.next)
	switch {
	case !s.seen:
		s.broken = flags&roce.FlagStart == 0 // the capture began later
	case d > maxJump || d < -maxJump:
		s.inside, s.broken = false, flags&roce.FlagStart == 0
	case d > 0:
		s.holed, s.op.n = true, s.op.n+uint32(d)
		c.find(f.now, ucGap, "%d from PSN %v on", d, s.next)
	case d < 0:
		c.find(f.now, requestDuplicated, "%v at PSN %v, or it came late", f.pkt.BTH.Opcode, psn)
		return
	}
	s.seen, s.next = true, psn.Next()
	start, end := flags&roce.FlagStart != 0, flags&roce.FlagEnd != 0
	switch {
	case start && s.inside:
		c.find(f.now, ucCut, "another begins at PSN %v", psn)
	case !start && !s.inside && !s.broken:
		c.find(f.now, ucCut, "%v at PSN %v has no beginning", f.pkt.BTH.Opcode, psn)
	}
	if start {
		s.broken, s.holed = false, false
		s.op = begun(f.now, &f.pkt)
	} else if s.inside {
		s.op.extend(&f.pkt)
	}
	if end && (start || s.inside) {
		c.tell(f, fl.side, &s.op, map[bool]string{false: unheard, true: incomplete}[s.holed])
	}
	s.inside = !end && (start || s.inside)
	s.broken = !s.inside && !end
	if end {
		s.done.messages++
	}
	s.done.bytes += len(f.pkt.Payload)
}

// datagram follows a packet of UD that is not for QP1.
func (f *Follower) datagram(p *pcapfile.Packet) {
	key := f.flowOf(p)
	fl, ok := f.flows[key]
	if !ok {
		back, known := f.flows[flowKey{src: p.Dst, dst: p.Src, to: key.from, from: key.to, service: roce.ServiceUD}]
		if known {
			fl = flow{back.conv, 1 - back.side}
		} else {
			fl = f.begin(key)
			fl.conv.ends[0].qpn, fl.conv.paired = key.from, "datagrams"
		}
		f.flows[key] = fl
	}
	f.heard(fl, p)
	c := fl.conv
	s := &c.streams[fl.side]
	s.seen = true
	s.done.messages++
	s.done.bytes += len(f.pkt.Payload)
	o := begun(f.now, &f.pkt)
	c.tell(f, fl.side, &o, unheard)
	q := uint64(f.pkt.DETH.QKey) | 1<<32
	if c.qkeys[fl.side] == 0 {
		c.qkeys[fl.side] = q
	}
	if first := c.qkeys[fl.side]; first != q {
		c.find(f.now, udQKeys, "%#08x and %#08x to QP %#06x", uint32(first), uint32(q), uint32(key.to))
	}
}
