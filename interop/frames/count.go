package frames

import "time"

// Life is the time in which one of our adapters could count arrivals.
type Life struct {
	Opened, Told time.Time // Told is when it reported its counts, just before it was closed
	Passed       int       // frames on the wire until it was closed
}

// unread is how long an arrived packet may wait in the socket.
const unread = 100 * time.Millisecond

// Late returns the number of packets to this host that no adapter of ours may have
// counted: packets that came while none was open, or so shortly before one reported
// its counts that it may not have read them, or as the answer to its final DREQ, for
// which an ending program does not wait. lives are in the order of their ends.
func Late(fs []Frame, lives []Life) (late int) {
	parting := partings(fs)
	for i := range fs {
		for len(lives) > 0 && lives[0].Passed <= i {
			lives = lives[1:]
		}
		if f := &fs[i]; f.Err != nil || f.Out {
			continue
		} else if len(lives) == 0 || f.Time.Before(lives[0].Opened) || f.Time.After(lives[0].Told.Add(-unread)) || parting[i] {
			late++
		}
	}
	return late
}

// partings returns the indices of the DREPs to this host that answer its last frame, a
// DREQ; only a REQ of a next adapter may follow.
func partings(fs []Frame) map[int]bool {
	found := map[int]bool{}
	var waiting []int
	var last Message
	for i := range fs {
		m, _ := fs[i].CM()
		switch {
		case fs[i].Out && m != REQ:
			last, waiting = m, nil
		case fs[i].Out:
			last = m
		case m == DREP && last == DREQ:
			waiting = append(waiting, i)
		}
		if fs[i].Out && m == REQ || i == len(fs)-1 {
			for _, w := range waiting {
				found[w] = true
			}
			waiting = nil
		}
	}
	return found
}

// ToGroups returns how many packets left this host for multicast groups.
func ToGroups(fs []Frame) (n int) {
	for i := range fs {
		if f := &fs[i]; f.Err == nil && f.Out && f.Dst.IsMulticast() {
			n++
		}
	}
	return n
}

// Messages returns the number of complete messages on the wire in either
// direction, retransmissions not counted: SENDs, WRITEs and atomics by the last
// packet of their request, READs, FLUSHes and ATOMIC WRITEs by the last packet of their response. Each UD
// datagram counts, except those of the connection manager.
func Messages(fs []Frame) int {
	type place struct {
		out     bool
		qp, psn uint32
	}
	seen := map[place]struct{}{}
	datagrams := 0
	for i := range fs {
		f := &fs[i]
		whole := f.ends() && !f.fetches() || f.Opcode == readResponseLast || f.Opcode == readResponseOnly
		switch {
		case !whole || f.Err != nil || f.DestQP == managerQP:
		case f.Opcode == udSendOnly || f.Opcode == udSendOnlyImm:
			datagrams++
		default:
			seen[place{f.Out, f.DestQP, f.PSN}] = struct{}{}
		}
	}
	return len(seen) + datagrams
}
