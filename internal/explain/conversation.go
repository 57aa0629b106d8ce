package explain

import (
	"container/list"
	"net/netip"
	"slices"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/roce"
)

// flowKey identifies the packets of one direction by their destination.
type flowKey struct {
	src, dst netip.Addr
	to       ib.QPN // destination QP; for RD the EE context
	from     ib.QPN // UD: the source QP
	service  roce.Service
}

// flow is the conversation of the packets with a key, whose sender is the end
// with index side.
type flow struct {
	conv *conversation
	side int
}

// addrPair is a direction between two addresses.
type addrPair struct {
	src, dst netip.Addr
	service  roce.Service
}

const (
	maxAlone  = 64        // conversations with one known direction, per pair of addresses
	maxRoutes = 16        // directions of migrated paths that a conversation remembers
	noQPN     = 1<<32 - 1 // unknown number
)

// How the two ends of a conversation were matched, in the report.
const (
	byAnswers   = "answers"   // one end answers requests of the other
	byAddresses = "addresses" // no other conversation between the two addresses fits
	byAdapters  = "adapters"  // the adapter of an end says so
)

// conversation is the traffic of two queue pairs or two EE contexts. The second
// number is unknown until an answer is seen.
type conversation struct {
	id       int
	service  roce.Service
	ends     [2]end
	paired   string // how the two ends were matched; "" if they were not
	halves   [2]half
	streams  [2]stream // for UC
	routes   []flowKey // directions of the paths to which it migrated, the oldest first
	pkeys    [2]uint32 // the P_Key of each direction, with a higher bit set if it is known
	mtu      int       // payload of FIRST and MIDDLE packets, 0 if unknown
	port     uint16    // UDP source port of the last packet
	copies   copies
	rnrRetry [2]retryCount
	told     bool // its failure was reported
	waits    bool // its wait for an answer was reported
	packets  int
	bytes    int
	first    instant
	last     instant
	findings []*Finding
	latest   struct { // the latest finding
		rule *Rule
		in   instant
	}
	notes   []string
	ladder  ladder
	element *list.Element
}

// retryCount is the RNR retry count of a requester, if connection managers agreed on one.
type retryCount struct {
	count uint8
	ok    bool
}

// end is one end of a conversation.
type end struct {
	addr netip.Addr
	qpn  ib.QPN
}

// qpnOf returns the number that identifies the destination of a connected packet.
func qpnOf(p *roce.Packet) ib.QPN {
	if p.Info.Service == roce.ServiceRD {
		return ib.QPN(p.RDETH.EEC)
	}
	return p.BTH.DestQP
}

// connected finds the conversation of the packet, or starts one.
func (f *Follower) connected(p *pcapfile.Packet) flow {
	key := f.flowOf(p)
	fl, ok := f.flows[key]
	if ok && f.replaced(fl) {
		f.end(fl.conv)
		ok = false
	}
	if ok && !fl.conv.wants(&f.pkt, fl.side) && f.adopt(fl) {
		fl = f.flows[key]
	}
	if !ok {
		if fl, ok = f.partner(key, p.SrcPort); !ok {
			if fl, ok = f.moved(key); !ok {
				fl = f.begin(key)
			}
		}
	}
	f.heard(fl, p)
	return fl
}

// replaced reports whether the packet answers requests of another conversation: the queue pair
// that it goes to has a new peer.
func (f *Follower) replaced(fl flow) bool {
	h := &fl.conv.halves[1-fl.side]
	if f.pkt.Info.Flags&roce.FlagResponse == 0 || fl.conv.paired == "" || !h.seen || h.near(f.pkt.BTH.PSN) {
		return false
	}
	pair := addrPair{fl.conv.ends[1-fl.side].addr, fl.conv.ends[fl.side].addr, fl.conv.service}
	other, how, _ := f.match(f.alone[pair], fl.conv.port)
	return other != nil && other != fl.conv && how == byAnswers
}

// begin starts a conversation with its first packet.
func (f *Follower) begin(key flowKey) flow {
	c := &conversation{service: key.service, ends: [2]end{{key.src, noQPN}, {key.dst, key.to}}}
	f.admit(c)
	fl := flow{c, 0}
	f.flows[key] = fl
	if key.service == roce.ServiceUD {
		return fl
	}
	pair := addrPair{key.src, key.dst, key.service}
	if list := f.alone[pair]; len(list) < maxAlone {
		f.alone[pair] = append(list, c)
	}
	f.byQPN[key.to] = c
	return fl
}

// admit adds a new conversation. If there are too many, it ends the one with the
// longest silence.
func (f *Follower) admit(c *conversation) {
	if f.alive.Len() >= f.cfg.Conversations {
		f.end(f.alive.Back().Value.(*conversation))
		f.report.Ended++
	}
	f.ids++
	c.id, c.first = f.ids, f.now
	c.element = f.alive.PushFront(c)
}

// wants reports whether a packet may come from a side: an answer needs requests of
// the other side.
func (c *conversation) wants(p *roce.Packet, side int) bool {
	return p.Info.Flags&roce.FlagResponse == 0 || c.paired != "" || c.halves[1-side].seen
}

// partner finds the conversation that has the packet's direction as its second one. Where
// requests are answered, it takes an answer: the next request between two hosts may be of
// another connection.
func (f *Follower) partner(key flowKey, port uint16) (flow, bool) {
	if key.service != roce.ServiceUC && f.pkt.Info.Flags&roce.FlagResponse == 0 {
		return flow{}, false
	}
	pair := addrPair{key.dst, key.src, key.service}
	list := f.alone[pair]
	c, how, guess := f.match(list, port)
	if c == nil {
		return flow{}, false
	}
	if c.paired != "" { // by a guess that this answer disproves
		f.disprove(c)
	}
	c.ends[0].qpn, c.paired = key.to, how
	fl := flow{c, 1}
	f.flows[key] = fl
	f.byQPN[key.to] = c
	if !guess {
		f.leave(pair, c)
	}
	return fl, true
}

// leave removes a conversation from those with one known direction.
func (f *Follower) leave(pair addrPair, c *conversation) {
	list := slices.DeleteFunc(f.alone[pair], func(d *conversation) bool { return c == d })
	if len(list) == 0 {
		delete(f.alone, pair)
		return
	}
	f.alone[pair] = list
}

// match returns the conversation of list to which a packet of the other direction
// belongs: the only one that waits for this answer, else the only one in list. It
// also returns the evidence, and whether it is a guess that a later answer can disprove: an
// answer that fits no request belongs to the only connection that there is.
func (f *Follower) match(list []*conversation, port uint16) (c *conversation, how string, guess bool) {
	answer := f.pkt.Info.Flags&roce.FlagResponse != 0
	var found, only *conversation
	n := 0
	for _, c := range list {
		if h := &c.halves[0]; answer && !h.expects(f.pkt.BTH.PSN) {
			continue
		}
		if n++; c.port == port {
			found = c
		}
		only = c
	}
	if found == nil && n == 1 {
		found = only
	}
	switch {
	case found != nil && answer:
		return found, byAnswers, false
	case found != nil && (n == 1 || found.port == port):
		return found, byAddresses, false
	case answer && n == 0 && len(list) == 1 && list[0].paired == "" && list[0].halves[0].seen && f.pkt.AETH.MSN == 0: // with another MSN it is of an earlier connection
		return list[0], byAddresses, true
	default:
		return nil, "", false
	}
}

// moved finds the conversation that migrates to other addresses with this packet: a
// request to the same queue pair whose PSN is near those before, or which repeats an earlier
// repeat, or an answer to a request nearby.
func (f *Follower) moved(key flowKey) (flow, bool) {
	c := f.byQPN[key.to]
	if c == nil || c.service != key.service || !f.pkt.BTH.MigReq {
		return flow{}, false
	}
	side := 0
	if c.ends[0].qpn == key.to {
		side = 1
	}
	psn := f.pkt.BTH.PSN
	if f.pkt.Info.Flags&roce.FlagResponse != 0 {
		if h := &c.halves[1-side]; !h.near(psn) || psn.Diff(h.next) >= 0 {
			return flow{}, false
		}
	} else if h := &c.halves[side]; !h.near(psn) && (h.ignored == 0 || psn != h.again) {
		return flow{}, false
	}
	c.find(f.now, migrated, "from %v > %v to %v > %v", c.ends[side].addr, c.ends[1-side].addr, key.src, key.dst)
	f.route(c, side, key)
	if q := c.ends[side].qpn; q != noQPN {
		f.route(c, 1-side, flowKey{src: key.dst, dst: key.src, to: q, service: key.service})
	}
	return flow{c, side}, true
}

// route adds a direction of a migrated conversation. If there are too many, it forgets the
// oldest one, whose next packet counts as another migration.
func (f *Follower) route(c *conversation, side int, key flowKey) {
	if len(c.routes) >= maxRoutes {
		if old := c.routes[0]; f.flows[old].conv == c {
			delete(f.flows, old)
		}
		c.routes = slices.Delete(c.routes, 0, 1)
	}
	c.routes = append(c.routes, key)
	f.flows[key] = flow{c, side}
}

// heard counts a packet and checks the fields that all services have.
func (f *Follower) heard(fl flow, p *pcapfile.Packet) {
	c := fl.conv
	f.sight.conv, f.sight.side = c, fl.side
	if f.alive.Front() != c.element {
		f.alive.MoveToFront(c.element)
	}
	f.copied(c, fl.side, p)
	c.packets++
	c.bytes += len(f.pkt.Payload)
	c.last, c.port = f.now, p.SrcPort
	c.ladder.add(rung{
		Record: f.now.record, At: f.now.at, Side: fl.side, op: f.pkt.BTH.Opcode, psn: f.pkt.BTH.PSN,
		size: len(f.pkt.Payload), aeth: f.pkt.Info.Headers&roce.HasAETH != 0, syndrome: f.pkt.AETH.Syndrome,
	})
	if marked(p.IP) {
		c.find(f.now, congestionMark, "%v > %v", p.Src, p.Dst)
	}
	key := uint32(f.pkt.BTH.PKey)&0x7fff | 1<<16
	if c.pkeys[fl.side] = key; c.pkeys[1-fl.side] != 0 && c.pkeys[1-fl.side] != key {
		c.find(f.now, pkeysDiffer, "%#04x and %#04x", key&0x7fff, c.pkeys[1-fl.side]&0x7fff)
	}
}

// marked reports whether the IP header has the ECN mark for congestion.
func marked(ip []byte) bool {
	const ce = 3
	if ip[0]>>4 == 4 {
		return ip[1]&ce == ce
	}
	return ip[1]>>4&ce == ce
}

// notice processes a congestion notification, which goes to the sender of the data.
func (f *Follower) notice(p *pcapfile.Packet) {
	c := f.byQPN[f.pkt.BTH.DestQP]
	if c == nil {
		c = &f.wire
	}
	c.find(f.now, congestionNotice, "from %v to QP %#06x of %v", p.Src, uint32(f.pkt.BTH.DestQP), p.Dst)
}

// end ends a conversation and adds it to the report.
func (f *Follower) end(c *conversation) {
	f.alive.Remove(c.element)
	f.pending -= c.open()
	for side := range c.halves {
		c.conclude(side)
		c.unheard(side)
		c.giveUp(f, side)
	}
	c.untold()
	for _, key := range append(f.ownFlows(c), c.routes...) {
		if f.flows[key].conv == c {
			delete(f.flows, key)
		}
	}
	for side := range c.ends {
		if q := c.ends[side].qpn; f.byQPN[q] == c {
			delete(f.byQPN, q)
		}
	}
	f.leave(addrPair{c.ends[0].addr, c.ends[1].addr, c.service}, c)
	c.forgive()
	f.noteOwn(c)
	f.report.add(c)
}

// ownFlows returns the keys of the first path of a conversation.
func (f *Follower) ownFlows(c *conversation) (keys []flowKey) {
	for side := range c.ends {
		from := ib.QPN(0)
		if c.service == roce.ServiceUD {
			from = c.ends[side].qpn
		}
		keys = append(keys, flowKey{c.ends[side].addr, c.ends[1-side].addr, c.ends[1-side].qpn, from, c.service})
	}
	return keys
}

// since returns the time from then to now.
func (n instant) since(then instant) time.Duration { return n.at - then.at }
