package clocks

import (
	"cmp"
	"slices"

	"github.com/softhca/softhca/internal/pcapfile"
)

// sender says which of two captures was taken nearer to the sender of a packet.
type sender int8

const (
	unsettled sender = iota
	first
	second
)

// match is a packet that is in two captures.
type match struct {
	at    int64 // by the clock of the second capture
	diff  int64 // that time minus the time in the first capture
	pair  uint32
	forth bool
	from  sender
}

// excess returns by how much the time in the receiver's capture precedes that in the sender's, if the clock
// of the second capture is ahead by off.
func (m *match) excess(off int64) int64 {
	if m.from == first {
		return off - m.diff
	}
	return m.diff - off
}

// matches returns the packets that are in both captures, in the order of their times in the second. Of equal
// packets, such as retransmissions, it matches the first of one capture with the first of the other, and so
// on, but none if the captures have different numbers of them: one was lost, and nothing shows which.
func matches(a, b *Samples) (list []match) {
	for i, j := 0, 0; i < len(a.list) && j < len(b.list); {
		if order := cmp.Compare(a.list[i].sum, b.list[j].sum); order < 0 {
			i++
			continue
		} else if order > 0 {
			j++
			continue
		}
		n, m := equal(a.list[i:]), equal(b.list[j:])
		if n == m && n <= maxRepeats {
			for k := range n {
				list = append(list, matchOf(&a.list[i+k], &b.list[j+k]))
			}
		}
		i, j = i+n, j+m
	}
	slices.SortFunc(list, func(a, b match) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.diff, b.diff)) })
	return settle(list)
}

// matchOf returns the match of a packet, with the sender if the captures tell directions.
func matchOf(a, b *sample) match {
	m := match{at: b.at, diff: b.at - a.at, pair: b.pair, forth: b.forth}
	atFirst := a.way == pcapfile.Outbound || b.way == pcapfile.Inbound
	atSecond := b.way == pcapfile.Outbound || a.way == pcapfile.Inbound
	switch {
	case atFirst && !atSecond:
		m.from = first
	case atSecond && !atFirst:
		m.from = second
	}
	return m
}

// settle finds the senders in captures that tell no directions. A packet takes time, so differences of the
// direction from the first capture to the second are greater than those back. Two hosts with packets in one
// direction only do not show this. Their packets are left out, unless there are no others.
func settle(list []match) []match {
	votes := make(map[uint32]int) // by pair: positive if the packets forth have the greater differences
	both := make(map[uint32]bool)
	seen := make(map[uint32]*[2]*match) // by pair: the last packet back and forth
	for i := range list {
		m := &list[i]
		if m.from != unsettled {
			continue
		}
		last := seen[m.pair]
		if last == nil {
			last = new([2]*match)
			seen[m.pair] = last
		}
		last[side(m.forth)] = m
		if last[0] != nil && last[1] != nil {
			both[m.pair] = true
			votes[m.pair] += cmp.Compare(last[1].diff, last[0].diff)
		}
	}
	settled := slices.Clone(list)
	for i := range settled {
		if m := &settled[i]; m.from == unsettled && both[m.pair] {
			m.from = second
			if m.forth == (votes[m.pair] >= 0) {
				m.from = first
			}
		}
	}
	if settled = slices.DeleteFunc(settled, func(m match) bool { return m.from == unsettled }); len(settled) > 0 {
		return settled
	}
	from := guess(list)
	for i := range list {
		list[i].from = from
	}
	return list
}

// guess returns the sender of packets in one direction only: most take little more time than the fastest.
func guess(list []match) sender {
	diffs := make([]int64, len(list))
	for i := range list {
		diffs[i] = list[i].diff
	}
	slices.Sort(diffs)
	if n := len(diffs); n > 0 && diffs[n/2]-diffs[0] > diffs[n-1]-diffs[n/2] {
		return second
	}
	return first
}

// side returns the index of a direction.
func side(forth bool) int {
	if forth {
		return 1
	}
	return 0
}
