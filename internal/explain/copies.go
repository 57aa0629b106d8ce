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
	// recentLen is the number of packets per side that are compared with later ones
	// to find copies: those in flight between two places of capture.
	recentLen = 64
	// minMerged is the minimum number of packets for the conclusion that each is
	// captured twice.
	minMerged = 4
	// copied is the maximum delay of the second copy in a capture that has each
	// packet twice.
	copied = 20 * time.Millisecond
)

// recent holds the last packets of a side.
type recent struct {
	sums [recentLen]uint32
	at   [recentLen]time.Duration
	ways [recentLen]pcapfile.Direction
	n    int // packets added
}

// add remembers a packet.
func (r *recent) add(sum uint32, at time.Duration, way pcapfile.Direction) {
	i := r.n % recentLen
	r.sums[i], r.at[i], r.ways[i] = sum, at, way
	r.n++
}

// find returns the age of the last copy of a packet, and its direction.
func (r *recent) find(sum uint32, at time.Duration) (ago time.Duration, way pcapfile.Direction, ok bool) {
	for i := range min(r.n, recentLen) {
		if r.sums[i] == sum && at-r.at[i] < copied {
			return at - r.at[i], r.ways[i], true
		}
	}
	return 0, 0, false
}

// forget forgets all packets: later ones are repeats, not copies.
func (r *recent) forget() {
	if r != nil {
		r.n = 0
	}
}

// copies counts the packets of a conversation that are in the capture more than once.
type copies struct {
	recent [2]*recent // nil before the first packet of the side
	n      int        // packets identical to an earlier one
	taken  int        // of these, packets taken for repeats
	own    int        // of these, packets that passed the other way before: not duplicated by the network
}

// arrival reports whether an inbound packet was also captured when it left: an
// adapter talks to itself, or captures of both ends were merged. Only the outbound
// packet is followed.
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

// copied records whether the packet is identical to a recent packet of the side.
// Such a copy is ignored unless something requested a repeat.
func (f *Follower) copied(c *conversation, side int, p *pcapfile.Packet) {
	f.sight.left = p.Direction == pcapfile.Outbound
	sum := f.pkt.ICRC
	if p.Truncated {
		sum = crc32.ChecksumIEEE(p.Payload[:min(len(p.Payload), roce.MaxHeaderLen)])
		if p.Src.Is4() {
			sum ^= uint32(binary.BigEndian.Uint16(p.IP[4:]))
		}
	}
	t := &c.copies
	if t.recent[side] == nil {
		t.recent[side] = new(recent)
	}
	ago, way, again := t.recent[side].find(sum, f.now.at)
	t.recent[side].add(sum, f.now.at, p.Direction)
	if !again || f.sight.left && way == pcapfile.Outbound {
		return // an adapter that sends a packet again has not captured it twice
	}
	f.sight.turned = way != p.Direction && way != pcapfile.Unmarked && p.Direction != pcapfile.Unmarked
	f.sight.copy = f.sight.turned || c.doubled() || ago < maxCopyDelay && !c.halves[side].settled(&f.pkt)
	t.n++
	if f.sight.turned {
		t.own++
	} else if !f.sight.copy {
		t.taken++
	}
}

// settled reports whether a packet is a request that the requester may have reason to
// repeat: an answer to it, or to a later request, has passed.
func (h *half) settled(p *roce.Packet) bool {
	if !h.seen || p.Info.Flags&roce.FlagResponse != 0 {
		return false
	}
	i := h.locate(p.BTH.PSN)
	return p.BTH.PSN.Diff(h.una) < 0 || i >= 0 && (h.ops[i].skipped || h.ops[i].rspGap || h.ops[i].rsp > 0)
}

// doubled reports whether nearly every packet so far was in the capture twice.
func (c *conversation) doubled() bool { return c.packets >= minMerged && 20*c.copies.n >= 9*c.packets }

// copied records a copy.
func (c *conversation) copied(f *Follower, side int) {
	if f.sight.turned || f.pkt.Info.Flags&roce.FlagResponse != 0 {
		return
	}
	h, psn := &c.halves[side], f.pkt.BTH.PSN
	h.atomic.again = h.atomic.again || h.atomic.known && psn == h.atomic.psn
	f.sight.marks |= Repeated
	c.find(f.now, requestDuplicated, "%v at PSN %v", f.pkt.BTH.Opcode, psn)
}

// forgive removes findings that only result from a capture with each packet twice.
func (c *conversation) forgive() {
	if !c.doubled() {
		return
	}
	c.findings = slices.DeleteFunc(c.findings, func(f *Finding) bool {
		return f.id == requestDuplicated || f.id == atomicReplayed || f.Severity == Repaired && f.id != nakRefuted && f.Count <= c.copies.taken
	})
	c.note("nearly every packet was captured twice: captures of two places were merged, or of two interfaces of one host")
}

// noteOwn adds a note if both ends of a conversation send from the place of capture.
func (f *Follower) noteOwn(c *conversation) {
	own := func(a netip.Addr) bool { return slices.Contains(f.own, a) }
	if own(c.ends[0].addr) && own(c.ends[1].addr) && f.report.Twice > 0 {
		c.note("both ends are on the capturing host: of each packet only the outgoing copy was followed")
	}
}
