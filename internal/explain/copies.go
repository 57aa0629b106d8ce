package explain

import (
	"encoding/binary"
	"hash/crc32"
	"net/netip"
	"slices"
	"time"

	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/roce"
)

const (
	// recentLen is how many packets of a side are remembered to know copies of
	// them: as many as are on their way between two places of capture.
	recentLen = 64
	// minMerged is how many packets tell that each is captured twice.
	minMerged = 4
	// copied is how much later the second copy comes at most, of a capture that has
	// each packet twice.
	copied = 20 * time.Millisecond
)

// recent is the last packets of a side.
type recent struct {
	sums [recentLen]uint32
	at   [recentLen]time.Duration
	ways [recentLen]pcapfile.Direction
	n    int // that were added
}

// add remembers a packet.
func (r *recent) add(sum uint32, at time.Duration, way pcapfile.Direction) {
	i := r.n % recentLen
	r.sums[i], r.at[i], r.ways[i] = sum, at, way
	r.n++
}

// find returns how long ago a packet was here already, and which way it passed.
func (r *recent) find(sum uint32, at time.Duration) (ago time.Duration, way pcapfile.Direction, ok bool) {
	for i := range min(r.n, recentLen) {
		if r.sums[i] == sum && at-r.at[i] < copied {
			return at - r.at[i], r.ways[i], true
		}
	}
	return 0, 0, false
}

// forget forgets all packets: what comes from now on was asked for.
func (r *recent) forget() {
	if r != nil {
		r.n = 0
	}
}

// twins counts the packets of a conversation that are in the capture more than once.
type twins struct {
	recent [2]*recent // nil before the first packet of the side
	n      int        // packets that are an earlier one again, to the bit
	taken  int        // of them those that were taken for repeats
	own    int        // of them those that passed the other way before: no network made them
}

// arrival reports whether a packet came in that was captured when it left, too: an
// adapter talks to itself, or captures of both ends were merged. What left is what is
// followed.
func (f *Follower) arrival(p *pcapfile.Packet) bool {
	switch p.Direction {
	case pcapfile.Outbound:
		if n := len(f.own); (n == 0 || f.own[n-1] != p.Src) && n < maxAddrs && !slices.Contains(f.own, p.Src) {
			f.own = append(f.own, p.Src)
		}
		return false
	case pcapfile.Inbound:
		if !slices.Contains(f.own, p.Src) {
			return false
		}
		f.report.Twice++
		f.sight.twice = true
		if fl, ok := f.flows[f.flowOf(p)]; ok {
			f.sight.conv, f.sight.side = fl.conv, fl.side
		}
		return true
	default:
		return false
	}
}

// flowOf returns the key of the packet's direction.
func (f *Follower) flowOf(p *pcapfile.Packet) flowKey {
	key := flowKey{src: p.Src, dst: p.Dst, to: qpnOf(&f.pkt), service: f.pkt.Info.Service}
	if key.service == roce.ServiceUD {
		key.from = f.pkt.DETH.SrcQP
	}
	return key
}

// twin notes whether the packet is one that the side sent just now, to the bit. In
// that case nothing is to be learnt from it, as long as nothing asked for it again.
func (f *Follower) twin(c *conversation, side int, p *pcapfile.Packet) {
	f.sight.left = p.Direction == pcapfile.Outbound
	sum := f.pkt.ICRC
	if p.Truncated {
		sum = crc32.ChecksumIEEE(p.Payload[:min(len(p.Payload), roce.MaxHeaderLen)])
		if p.Src.Is4() {
			sum ^= uint32(binary.BigEndian.Uint16(p.IP[4:]))
		}
	}
	t := &c.twins
	if t.recent[side] == nil {
		t.recent[side] = new(recent)
	}
	ago, way, again := t.recent[side].find(sum, f.now.at)
	t.recent[side].add(sum, f.now.at, p.Direction)
	if !again || f.sight.left && way == pcapfile.Outbound {
		return // an adapter that sends a packet again has not captured it twice
	}
	f.sight.turned = way != p.Direction && way != pcapfile.Unmarked && p.Direction != pcapfile.Unmarked
	f.sight.copy = f.sight.turned || c.doubled() || ago < together && !c.halves[side].settled(&f.pkt)
	t.n++
	if f.sight.turned {
		t.own++
	} else if !f.sight.copy {
		t.taken++
	}
}

// settled reports whether a packet is a request of which the requester was told
// enough to send it again: an answer to it passed, or to what follows.
func (h *half) settled(p *roce.Packet) bool {
	if !h.seen || p.Info.Flags&roce.FlagResponse != 0 {
		return false
	}
	i := h.locate(p.BTH.PSN)
	return p.BTH.PSN.Diff(h.una) < 0 || i >= 0 && (h.ops[i].skipped || h.ops[i].rspGap || h.ops[i].rsp > 0)
}

// doubled reports whether nearly each packet was in the capture twice up to now.
func (c *conversation) doubled() bool { return c.packets >= minMerged && 20*c.twins.n >= 9*c.packets }

// copied notes a copy.
func (c *conversation) copied(f *Follower, side int) {
	if f.sight.turned || f.pkt.Info.Flags&roce.FlagResponse != 0 {
		return
	}
	h, psn := &c.halves[side], f.pkt.BTH.PSN
	h.atomic.again = h.atomic.again || h.atomic.known && psn == h.atomic.psn
	f.sight.marks |= Repeated
	c.find(f.now, requestDuplicated, "%v at PSN %v", f.pkt.BTH.Opcode, psn)
}

// forgive takes back what was found because each packet is twice in the capture.
func (c *conversation) forgive() {
	if !c.doubled() {
		return
	}
	c.findings = slices.DeleteFunc(c.findings, func(f *Finding) bool {
		return f.id == requestDuplicated || f.id == atomicReplayed || f.Severity == Repaired && f.Count <= c.twins.taken
	})
	c.note("nearly every packet was captured twice: captures of two places were merged, or of two interfaces of one host")
}

// noteOwn notes that both ends of a conversation send from here.
func (f *Follower) noteOwn(c *conversation) {
	own := func(a netip.Addr) bool { return slices.Contains(f.own, a) }
	if own(c.ends[0].addr) && own(c.ends[1].addr) && f.report.Twice > 0 {
		c.note("both ends were captured here: what came in was followed when it left")
	}
}
