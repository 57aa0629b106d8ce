package explain

import (
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/roce"
)

// stream is the packets of one side of an unreliable connection, which has no
// answers.
type stream struct {
	seen   bool
	next   ib.PSN
	inside bool // a message has begun and not ended
	broken bool // a part of a message is missing; reset when the next one begins
	holed  bool // the current message skipped a PSN
	bytes  int  // bytes of the current message seen so far
	short  bool // the capture cut off a packet of the current message
	op     op   // the current message
	done   tally
}

// unreliable processes a packet of UC.
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
		s.op.extend(f.now, &f.pkt)
	}
	if s.short = p.Truncated || s.short && !start; !s.short {
		s.measure(f, c, start, end)
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

// measure checks the lengths of packets and messages. The receiver drops a message with a
// wrong length.
func (s *stream) measure(f *Follower, c *conversation, start, end bool) {
	n, psn := len(f.pkt.Payload), f.pkt.BTH.PSN
	if f.pkt.Info.Payload == roce.PayloadMTU && c.mtu != 0 && n != c.mtu {
		c.find(f.now, ucLength, "%v with %s at PSN %v, others have %d", f.pkt.BTH.Opcode, count(n, "byte"), psn, c.mtu)
	}
	if start {
		s.bytes = 0
	}
	s.bytes += n
	if end && (start || s.inside) && !s.holed && s.op.kind != roce.KindSend && s.bytes != s.op.length {
		c.find(f.now, ucLength, "%v; its packets have %s", &s.op, count(s.bytes, "byte"))
	}
}

// datagram processes a packet of UD that is not for QP1.
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
	f.checkQKey(c, qpAt{p.Dst, key.to})
	if n := len(f.pkt.Payload); n > ib.MTU4096.Bytes() {
		c.find(f.now, udTooLong, "%s at PSN %v", count(n, "byte"), f.pkt.BTH.PSN)
	}
}

// maxQKeys is the maximum number of UD queue pairs whose Q_Keys are remembered.
const maxQKeys = 4096

// qpAt is a queue pair of the adapter at an address.
type qpAt struct {
	addr netip.Addr
	qpn  ib.QPN
}

// qkeyOf is the Q_Key of a queue pair in a record of the capture.
type qkeyOf struct {
	qkey      ib.QKey
	record    int
	announced bool // by a SIDR_REP; otherwise used in a datagram
}

// qkeys are the Q_Keys of queue pairs of UD.
type qkeys struct{ known map[qpAt]qkeyOf }

// announce records the Q_Key of a queue pair.
func (k *qkeys) announce(at qpAt, q qkeyOf) { remember(&k.known, maxQKeys, at, q) }

// checkQKey compares the Q_Key of a datagram with the known Q_Key of its destination.
func (f *Follower) checkQKey(c *conversation, to qpAt) {
	q := f.pkt.DETH.QKey
	switch known, ok := f.qkeys.known[to]; {
	case !ok:
		f.qkeys.announce(to, qkeyOf{q, f.now.record, false})
	case known.qkey == q:
	case known.announced:
		c.find(f.now, udQKeyWrong, "%#08x to QP %#06x, whose Q_Key is %#08x by the SIDR_REP in record %d", uint32(q), uint32(to.qpn), uint32(known.qkey), known.record)
	default:
		c.find(f.now, udQKeys, "%#08x and %#08x (record %d) to QP %#06x", uint32(q), uint32(known.qkey), known.record, uint32(to.qpn))
	}
}
