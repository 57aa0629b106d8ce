package frames

import "time"

// Life is when an adapter of ours could count what came.
type Life struct {
	Opened, Told time.Time // Told is when it told its counts, just before it was closed
	Passed       int       // how many frames had passed when it was closed
}

// unread is how long what came may have waited for us to read it.
const unread = 100 * time.Millisecond

// Late returns how many packets to this host came when nobody may have been
// there to count them: when no adapter of ours was open, or so shortly before one
// told its counts that it may not have read them, or as the answer to a DREQ that was
// the last that it sent: a program that ends does not wait for that. lives are in the
// order of their ends.
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

// partings returns, by index, the DREPs to this host that came when the last frame from
// it was a DREQ, and which nothing from it follows but, from a next life, a REQ.
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

// Messages returns how many messages were on the wire whole, in either
// direction, each once however often it was sent: SENDs, WRITEs and atomics by
// the last packet of their request, READs by the last of their data. Datagrams,
// which nobody sends again, count each time. The connection manager's are not
// among them.
func Messages(fs []Frame) int {
	type place struct {
		out     bool
		qp, psn uint32
	}
	seen := map[place]struct{}{}
	datagrams := 0
	for i := range fs {
		f := &fs[i]
		whole := f.ends() && f.Opcode != readRequest || f.Opcode == readResponseLast || f.Opcode == readResponseOnly
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
