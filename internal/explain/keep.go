package explain

import (
	"encoding/binary"
	"net/netip"
	"sort"
	"strings"
	"time"

	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/internal/printable"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// Packet is a packet in a report, for pages that show packets.
type Packet struct {
	Record       int
	At           time.Duration // since the first packet of the file; negative if it is older than the first
	Src, Dst     netip.Addr
	SrcPort      uint16
	TClass, TTL  uint8 // TTL or hop limit
	ID           uint16
	Length       int      // captured bytes of the UDP payload
	Head         []byte   // headers of the payload, or a whole management datagram
	Conversation int      // ID; 0 if its conversation is not listed
	Side         int      // sender: 0 is end A
	Marks        Marks    // properties of the packet
	Finding      string   // rule of the finding in this packet
	Comment      string   // comment of the record, printable
	Ends         [2]State // requests of A and of B after this packet
}

// Marks are properties of a packet.
type Marks uint8

// The marks.
const (
	Repeated      Marks = 1 << iota // a request that was seen before
	Filled                          // a request that was missing
	WrongICRC                       // damaged, or changed on the way
	Malformed                       // no RoCEv2 packet
	CutOff                          // its end was not captured
	LostByRule                      // a fault rule dropped it
	ChangedByRule                   // a fault rule had another effect on it
)

// Phase is the phase of a side with requests, as its packets show it.
type Phase uint8

// The phases.
const (
	Unseen    Phase = iota // no request yet
	Idle                   // all requests are answered
	Waiting                // waiting for answers
	AskedFor               // a NAK names a missing packet
	NotReady               // waiting after an RNR NAK
	Repeating              // retransmitting
	Unheard                // retransmitted after a timeout, no answer so far
	Refused                // a NAK ended it: the queue pair is in ERR
)

// State is the state of the requests of one side.
type State struct {
	Phase    Phase
	Next     uint32 // PSN after the highest one sent
	Una      uint32 // lowest unacknowledged PSN
	Messages int    // messages in flight
	MSN      int    // MSN of the last answer; -1 before
}

// packetLog keeps packets for the report: the first, or those around a record.
type packetLog struct {
	limit, around int
	packets       []Packet
	full          bool
	arena         []byte
	joined        map[int]joined
}

// joined is the conversation into which another one was merged, and whether its
// sides are swapped.
type joined struct {
	id   int
	flip bool
}

// sight is the classification of the current packet.
type sight struct {
	conv  *conversation
	side  int
	marks Marks
	copy  bool // identical to a packet that this side sent just now
	// turned: the identical packet passed in the other direction.
	turned bool
	// left: the capturing adapter sent it. The network did not duplicate such a packet.
	left bool
	// twice: it was already followed as an outbound packet.
	twice  bool
	effect faultEffect
}

// faultEffect is the effect of a fault rule on a packet.
type faultEffect uint8

const (
	unharmed faultEffect = iota // no effect at the receiver, or no rule
	delayed                     // it arrived late
	spoiled                     // it did not arrive, or the receiver drops it
)

// effectOf returns the effect of a rule from the comment on the packet.
func effectOf(comment string) faultEffect {
	did, _, _ := strings.Cut(comment, byRule)
	switch did = did[strings.LastIndexByte(did, '\n')+1:]; {
	case strings.HasSuffix(did, "lost"), strings.HasSuffix(did, "changed"), strings.HasSuffix(did, "cut"):
		return spoiled
	case strings.HasSuffix(did, "doubled"):
		return unharmed
	default:
		return delayed
	}
}

// arenaSize is the number of bytes allocated at once for heads.
const arenaSize = 1 << 16

// keep keeps the current packet if there is room.
func (f *Follower) keep(p *pcapfile.Packet) {
	k := &f.kept
	if !k.room() {
		return
	}
	kept := Packet{
		Record: f.now.record, At: f.now.at, Src: p.Src, Dst: p.Dst, SrcPort: p.SrcPort, Length: len(p.Payload),
		Head: k.head(p.Payload), Marks: f.sight.marks, Side: f.sight.side, Comment: printable.Line(p.Comment, printable.Limit),
	}
	if p.Src.Is4() {
		kept.TClass, kept.TTL, kept.ID = p.IP[1], p.IP[8], binary.BigEndian.Uint16(p.IP[4:])
	} else {
		kept.TClass, kept.TTL = p.IP[0]<<4|p.IP[1]>>4, p.IP[7]
	}
	if p.Truncated {
		kept.Marks |= CutOff
	}
	if c := f.sight.conv; c != nil {
		kept.Conversation = c.id
		kept.Finding = c.foundIn(f.now)
		for side := range c.halves {
			kept.Ends[side] = c.state(side)
		}
	}
	if kept.Finding == "" {
		kept.Finding = f.wire.foundIn(f.now)
	}
	k.packets = append(k.packets, kept)
}

// head copies the headers of a UDP payload.
func (k *packetLog) head(b []byte) []byte {
	n := min(len(b), roce.MaxHeaderLen)
	if len(b) >= roce.BTHLen {
		if i := roce.Opcode(b[0]).Info(); i.Service != roce.ServiceUD || len(b) != int(i.HeaderLen)+mad.Size+roce.ICRCLen {
			n = min(n, int(i.HeaderLen))
		} else {
			n = len(b)
		}
	}
	if len(k.arena)+n > cap(k.arena) {
		k.arena = make([]byte, 0, arenaSize)
	}
	at := len(k.arena)
	k.arena = append(k.arena, b[:n]...)
	return k.arena[at : at+n : at+n]
}

// room reports whether there is room for another packet. To make room it drops up to half
// of the packets, but keeps limit/2 of them before the wanted record.
func (k *packetLog) room() bool {
	if len(k.packets) < k.limit {
		return true
	}
	if k.full {
		return false
	}
	at := sort.Search(len(k.packets), func(i int) bool { return k.packets[i].Record >= k.around })
	drop := min(at-k.limit/2, k.limit-k.limit/2)
	if drop <= 0 {
		k.full = true
		return false
	}
	k.packets = k.packets[:copy(k.packets, k.packets[drop:])]
	return true
}

// join records that a conversation is a part of another.
func (k *packetLog) join(from, to int, flip bool) {
	if len(k.joined) < 2*k.limit {
		k.joined[from] = joined{to, flip}
	}
}

// rename replaces the finding of the packets of a record.
func (k *packetLog) rename(record int, from, to string) {
	for i := sort.Search(len(k.packets), func(i int) bool { return k.packets[i].Record >= record }); i < len(k.packets) && k.packets[i].Record == record; i++ {
		if k.packets[i].Finding == from {
			k.packets[i].Finding = to
		}
	}
}

// finish sets the conversation numbers of the packets to those of the report.
func (k *packetLog) finish(number map[int]int) []Packet {
	for i := range k.packets {
		p := &k.packets[i]
		if j, ok := k.joined[p.Conversation]; ok {
			p.Conversation = j.id
			if j.flip {
				p.Side = 1 - p.Side
				p.Ends[0], p.Ends[1] = p.Ends[1], p.Ends[0]
			}
		}
		p.Conversation = number[p.Conversation]
	}
	return k.packets
}

// foundIn returns the rule of the last finding if it was in this packet.
func (c *conversation) foundIn(now instant) string {
	if c.latest.in != now || c.latest.rule == nil {
		return ""
	}
	return c.latest.rule.Name
}

// state returns the state of the requests of a side.
func (c *conversation) state(side int) State {
	h := &c.halves[side]
	s := State{Next: h.next.Value(), Una: h.una.Value(), Messages: len(h.ops), MSN: h.msn}
	switch {
	case !h.seen:
		s = State{MSN: -1}
		if u := &c.streams[side]; u.seen {
			s.Phase, s.Next, s.Una = Idle, u.next.Value(), u.next.Value()
		}
	case h.failed():
		s.Phase = Refused
	case h.rnr.on:
		s.Phase = NotReady
	case h.nak.on:
		s.Phase = AskedFor
	case h.timeouts > 0 && h.una != h.next:
		s.Phase = Unheard
	case h.repeat.active && h.una != h.next:
		s.Phase = Repeating
	case h.una != h.next:
		s.Phase = Waiting
	default:
		s.Phase = Idle
	}
	return s
}

// marksOf returns the mark for a comment about the effect of a rule.
func marksOf(comment string) Marks {
	if strings.Contains(comment, "lost"+byRule) {
		return LostByRule
	}
	return ChangedByRule
}
