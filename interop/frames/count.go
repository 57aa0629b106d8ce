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
// told its counts that it may not have read them. lives are in the order of
// their ends.
func Late(fs []Frame, lives []Life) (late int) {
	for i := range fs {
		for len(lives) > 0 && lives[0].Passed <= i {
			lives = lives[1:]
		}
		if f := &fs[i]; f.Err != nil || f.Out {
			continue
		} else if len(lives) == 0 || f.Time.Before(lives[0].Opened) || f.Time.After(lives[0].Told.Add(-unread)) {
			late++
		}
	}
	return late
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
