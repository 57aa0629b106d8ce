package explain

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/roce"
)

const (
	maxSenders  = 1024 // senders whose ICRCs are counted
	maxSearches = 256  // wrong ICRCs that are analyzed; each costs up to 150 more
	minWrong    = 4    // minimum packets of a sender, all wrong, to report the sender
)

// damage explains wrong ICRCs.
type damage struct {
	senders  map[netip.Addr]*senderSums
	addrs    []netip.Addr // those in the capture
	searches int
}

// senderSums counts the packets of an address by their ICRCs.
type senderSums struct {
	good, bad int
	first     instant
}

// malformed records a packet that is not RoCEv2.
func (f *Follower) malformed(p *pcapfile.Packet, fault roce.Fault) {
	f.report.Malformed++
	f.sight.marks |= Malformed
	rule := badLength
	switch fault {
	case roce.FaultOpcode:
		rule = badOpcode
	case roce.FaultVersion:
		rule = badVersion
	case roce.FaultPad:
		rule = badPad
	}
	f.wire.find(f.now, rule, "%s from %v to %v", count(len(p.Payload), "byte"), p.Src, p.Dst)
}

// endWire rates the malformed packets after all conversations have ended. If a
// conversation repaired a loss and all others are clean or repaired, the malformed
// packets were that loss.
func (f *Follower) endWire() {
	r := &f.report
	if r.Tally.Repaired == 0 || r.Tally.Repaired+r.Tally.Clean < r.Tally.Conversations {
		return
	}
	for _, found := range f.wire.findings {
		if found.id >= badOpcode && found.id <= badPad {
			found.Severity = Repaired
		}
	}
}

// sound records and reports whether the ICRC is right.
func (f *Follower) sound(p *pcapfile.Packet, right bool) bool {
	s := f.damage.senders[p.Src]
	if s == nil {
		s = &senderSums{first: f.now}
		if len(f.damage.senders) < maxSenders {
			f.damage.senders[p.Src] = s
		}
	}
	if right {
		s.good++
		return true
	}
	s.bad++
	f.report.BadICRC++
	f.sight.marks |= WrongICRC
	rule, detail := icrcDamaged, "the ICRC of "+f.pkt.BTH.Opcode.String()+" is wrong"
	if f.damage.searches < maxSearches {
		f.damage.searches++
		if r, d := f.damage.rewritten(p, f.pkt.ICRC); d != "" {
			rule, detail = r, d
		}
	}
	if rule == icrcDamaged && f.unrepeated() {
		rule = icrcLost
	}
	f.wire.find(f.now, rule, "%s; from %v to %v", detail, p.Src, p.Dst)
	return false
}

// rewritten searches for a field that was changed on the way: with the old value of
// the field, the ICRC is right.
func (d *damage) rewritten(p *pcapfile.Packet, icrc uint32) (ruleID, string) {
	const dfBit = 0x40
	v4, df := p.Src.Is4(), false
	if v4 {
		id := binary.BigEndian.Uint16(p.IP[4:])
		df = p.IP[6]&dfBit != 0
		with := roce.NewPrefix(p.Src, p.Dst, p.SrcPort, p.DstPort, len(p.Payload))
		other := with.WithoutDF()
		if !df {
			with, other = other, with
		}
		if roce.Check(p.Payload, other.WithID(id)) {
			return icrcFragmentFlag, "the flag was the other way round"
		}
		if was, ok := roce.DeriveID(p.Payload, with, id); ok {
			return icrcID, "it was " + hex16(was) + " and is " + hex16(id)
		}
	}
	if a, ok := d.translated(p, icrc); ok {
		return icrcAddress, "it was " + a.String()
	}
	return translatedPort(p, icrc)
}

// translated searches for an address of the capture with which the ICRC is right.
func (d *damage) translated(p *pcapfile.Packet, icrc uint32) (netip.Addr, bool) {
	ip := slices.Clone(p.IP)
	at, size := 8, 16
	if p.Src.Is4() {
		at, size = 12, 4
	}
	for _, a := range d.addrs {
		if a.Is4() != p.Src.Is4() {
			continue
		}
		for k := range 2 {
			copy(ip, p.IP)
			copy(ip[at+k*size:], a.AsSlice())
			if sum, ok := roce.HeaderICRC(ip, p.UDP, p.Payload); ok && sum == icrc {
				return a, true
			}
		}
	}
	return netip.Addr{}, false
}

// translatedPort searches for a source port with which the ICRC is right. A CRC is
// linear: each bit of the port changes it by the same amount, independently of the
// others, so the bits that must change are the solution of 32 equations.
func translatedPort(p *pcapfile.Packet, icrc uint32) (ruleID, string) {
	base, ok := roce.HeaderICRC(p.IP, p.UDP, p.Payload)
	if !ok {
		return 0, ""
	}
	var rows [16]effect
	udp := slices.Clone(p.UDP)
	for bit := range rows {
		binary.BigEndian.PutUint16(udp, p.SrcPort^1<<bit)
		sum, _ := roce.HeaderICRC(p.IP, udp, p.Payload)
		rows[bit] = effect{sum ^ base, 1 << bit}
	}
	if flips, ok := solve(rows[:], base^icrc); ok {
		return icrcPort, "it was " + hex16(p.SrcPort^flips) + " and is " + hex16(p.SrcPort)
	}
	return 0, ""
}

// effect is the change of the ICRC when some bits of a port change.
type effect struct {
	sum  uint32
	bits uint16
}

// solve returns the bits whose effects add up to want, by Gaussian elimination.
func solve(rows []effect, want uint32) (flips uint16, ok bool) {
	for i := range rows {
		lead := rows[i].sum & -rows[i].sum
		if lead == 0 {
			continue
		}
		for k := range rows[i+1:] {
			if r := &rows[i+1+k]; r.sum&lead != 0 {
				r.sum, r.bits = r.sum^rows[i].sum, r.bits^rows[i].bits
			}
		}
		if want&lead != 0 {
			want, flips = want^rows[i].sum, flips^rows[i].bits
		}
	}
	return flips, want == 0
}

func hex16(v uint16) string {
	const digits = "0123456789abcdef"
	return string([]byte{'0', 'x', digits[v>>12], digits[v>>8&15], digits[v>>4&15], digits[v&15]})
}

// know remembers an address that wrong ICRCs may have been calculated with.
func (d *damage) know(a netip.Addr) {
	if n := len(d.addrs); n > 0 && d.addrs[n-1] == a || n >= maxAddrs {
		return
	}
	for _, b := range d.addrs {
		if a == b {
			return
		}
	}
	d.addrs = append(d.addrs, a)
}

// end reports the senders without a right ICRC.
func (d *damage) end(wire *conversation) {
	var addrs []netip.Addr
	for a, s := range d.senders {
		if s.good == 0 && s.bad >= minWrong {
			addrs = append(addrs, a)
		}
	}
	slices.SortFunc(addrs, func(a, b netip.Addr) int {
		return cmp.Compare(d.senders[a].first.record, d.senders[b].first.record)
	})
	for _, a := range addrs {
		s := d.senders[a]
		wire.find(s.first, icrcSender, "%s from %v", count(s.bad, "packet"), a)
	}
}
