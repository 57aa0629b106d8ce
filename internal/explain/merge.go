package explain

import (
	"cmp"
	"slices"

	"github.com/softhca/softhca/roce"
)

// adopt merges a conversation with requests in one direction only with the
// conversation whose requests the packet answers. It reports whether it did.
func (f *Follower) adopt(fl flow) bool {
	c := fl.conv
	if c.paired != "" {
		return false
	}
	pair := addrPair{c.ends[1].addr, c.ends[0].addr, c.service}
	other, how, _ := f.match(slices.DeleteFunc(slices.Clone(f.alone[pair]), func(d *conversation) bool { return d == c }), c.port)
	if other == nil {
		return false
	}
	f.merge(c, other, how)
	return true
}

// pairUp merges two unpaired conversations if each is the only one in its direction between
// two hosts. No answer has shown that they belong together.
func (f *Follower) pairUp() {
	for e := f.alive.Back(); e != nil; {
		c := e.Value.(*conversation)
		e = e.Prev()
		if c.paired != "" || c.service == roce.ServiceUC || c.service == roce.ServiceUD || c.ends[0].addr == c.ends[1].addr {
			continue
		}
		there := f.alone[addrPair{c.ends[0].addr, c.ends[1].addr, c.service}]
		back := f.alone[addrPair{c.ends[1].addr, c.ends[0].addr, c.service}]
		if len(there) == 1 && len(back) == 1 && there[0] == c && back[0].paired == "" && c.first.record < back[0].first.record {
			if e != nil && e.Value == back[0] {
				e = e.Prev()
			}
			f.merge(c, back[0], byAddresses)
		}
	}
}

// merge makes one conversation of two of which one direction is known. The one that was heard
// first stays.
func (f *Follower) merge(c, other *conversation, how string) {
	if other.first.record < c.first.record {
		c, other = other, c
	}
	for _, one := range [...]*conversation{c, other} {
		f.leave(addrPair{one.ends[0].addr, one.ends[1].addr, one.service}, one)
		if one.paired != "" {
			f.disprove(one)
		}
	}
	mine, its := other.halves[1].strays, c.halves[1].strays
	c.halves[1], c.pkeys[1] = other.halves[0], other.pkeys[0]
	c.halves[0].inherit(c.first, mine)
	c.halves[1].inherit(other.first, its)
	c.ends[0].qpn, c.paired = other.ends[1].qpn, how
	c.packets, c.bytes, c.mtu = c.packets+other.packets, c.bytes+other.bytes, max(c.mtu, other.mtu)
	c.last, c.told, c.waits = later(c.last, other.last), c.told || other.told, c.waits || other.waits
	c.copies = copies{
		recent: [2]*recent{c.copies.recent[0], other.copies.recent[0]}, n: c.copies.n + other.copies.n,
		taken: c.copies.taken + other.copies.taken, own: c.copies.own + other.copies.own,
	}
	for _, found := range other.findings {
		c.absorb(found)
	}
	c.ladder = c.ladder.with(&other.ladder)
	f.flows[flowKey{src: other.ends[0].addr, dst: other.ends[1].addr, to: other.ends[1].qpn, service: c.service}] = flow{c, 1}
	for _, key := range other.routes {
		f.route(c, 1-f.flows[key].side, key)
	}
	f.byQPN[other.ends[1].qpn] = c
	f.alive.Remove(other.element)
	f.kept.join(other.id, c.id, true)
}

// disprove drops the second direction of a conversation that was paired by a guess: an answer
// shows that it is of another connection. Its open requests stay without an answer.
func (f *Follower) disprove(c *conversation) {
	wrong := flowKey{src: c.ends[1].addr, dst: c.ends[0].addr, to: c.ends[0].qpn, service: c.service}
	if f.flows[wrong].conv == c {
		delete(f.flows, wrong)
	}
	if f.byQPN[wrong.to] == c {
		delete(f.byQPN, wrong.to)
	}
	h := &c.halves[1]
	f.pending -= len(h.ops)
	c.giveUp(f, 1)
	*h = half{done: h.done, answers: h.answers, ops: h.ops}
}

// absorb adds a finding of a conversation that becomes a part of this one.
func (c *conversation) absorb(found *Finding) {
	i := slices.IndexFunc(c.findings, func(f *Finding) bool { return f.id == found.id })
	if i < 0 {
		c.findings = append(c.findings, found)
		return
	}
	own := c.findings[i]
	own.Count, own.Last = own.Count+found.Count, max(own.Last, found.Last)
	if found.First < own.First {
		own.First, own.At, own.Detail = found.First, found.At, found.Detail
	}
}

// with returns the ladder of a conversation that another one, whose packets are those of the
// second side, becomes a part of.
func (l *ladder) with(other *ladder) ladder {
	turned := func(rs []rung) []rung {
		for i := range rs {
			rs[i].Side = 1
		}
		return rs
	}
	both := append(l.recent(), turned(other.recent())...)
	slices.SortStableFunc(both, func(a, b rung) int { return cmp.Compare(a.Record, b.Record) })
	var sum ladder
	for _, r := range both {
		sum.add(r)
	}
	sum.held, sum.grave, sum.more = l.held, l.grave, l.more
	if other.grave > l.grave {
		sum.held, sum.grave, sum.more = turned(other.held), other.grave, other.more
	}
	return sum
}
