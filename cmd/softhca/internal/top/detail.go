package top

import (
	"fmt"
	"strconv"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/observe"
	"github.com/softhca/softhca/internal/restrack"
)

// line is a line of a detail or of the help: a name, the value, and that of the other end.
type line struct {
	name   string
	values [2]string
	style  Style // of the values
}

// nameWidth is the number of cells of the names of a detail.
const nameWidth = 20

// bodyLines returns the lines of the detail or of the help that is shown.
func (u *UI) bodyLines() []line {
	if u.mode == modeHelp {
		return helpLines()
	}
	r := u.found()
	switch {
	case r == nil:
		return []line{{name: "It is gone. Press Esc for the table."}}
	case r.c != nil:
		other, peer := u.model.peer(r.c)
		return connectionLines(end{r.a, r.c}, end{other, peer}, u.histogramWidth())
	}
	return adapterLines(r.a)
}

// clampScroll keeps the first line of a detail or of the help within it.
func (u *UI) clampScroll() {
	if u.mode == modeDetail || u.mode == modeHelp {
		u.scroll = max(min(u.scroll, len(u.bodyLines())-u.bodyHeight()), 0)
	}
}

// drawBody draws the detail or the help.
func (u *UI) drawBody(f *Frame) {
	lines := u.bodyLines()
	half := max((f.Width-nameWidth)/2, 1)
	for i, l := range lines[min(u.scroll, len(lines)):] {
		y := lineHeading + i
		if y >= f.Height-1 {
			break
		}
		if l.values == [2]string{} {
			f.put(0, y, l.style, l.name)
			continue
		}
		f.field(cells{0, y, nameWidth - 1}, Label, l.name, false)
		if l.values[1] == "" {
			f.put(nameWidth, y, l.style, l.values[0])
			continue
		}
		f.field(cells{nameWidth, y, half - 1}, l.style, l.values[0], false)
		f.field(cells{nameWidth + half, y, half}, l.style, l.values[1], false)
	}
}

// end is one end of a connection. Both fields are nil if it is not known.
type end struct {
	a *adapter
	c *connection
}

// field is a field of a connection.
type field struct {
	name string
	text func(e end) string
}

// connectionLines returns the detail of a connection. other is the other end, if it is known.
func connectionLines(this, other end, width int) (lines []line) {
	both := func(text func(e end) string) (v [2]string) {
		if v[0] = text(this); other.c != nil {
			v[1] = text(other)
		}
		return v
	}
	heading := func(title string) {
		lines = append(lines, line{}, line{name: title, style: Title})
	}
	lines = append(lines, line{name: "Connection", values: [2]string{"this end", map[bool]string{true: "other end"}[other.c != nil]}, style: Title})
	for _, group := range connectionFields() {
		if group.title != "" {
			heading(group.title)
		}
		for _, f := range group.fields {
			lines = append(lines, line{name: f.name, values: both(f.text)})
		}
	}
	lines = append(lines, line{name: "Rate, last minute", values: both(func(e end) string { return sparkline(e.c.history.last(min(width, keptSeconds))) }), style: Good})
	heading("Completion time of send requests, of the last interval")
	for i := range restrack.LatencyBuckets {
		v := both(func(e end) string { return histogramBar(&e.c.change.Latency, i, width) })
		if used(this, i) || used(other, i) {
			lines = append(lines, line{bucketName(i), v, Good})
		}
	}
	heading("Completion time of send requests, of all")
	for i := range restrack.LatencyBuckets {
		v := both(func(e end) string { return histogramBar((*observe.Histogram)(&e.c.QP.Latency), i, width) })
		if used(this, i) || used(other, i) {
			lines = append(lines, line{bucketName(i), v, Good})
		}
	}
	return lines
}

// used reports whether a bucket has ever counted anything.
func used(e end, bucket int) bool { return e.c != nil && e.c.QP.Latency[bucket] != 0 }

// histogramWidth returns how many cells the bars of a histogram have.
func (u *UI) histogramWidth() int { return max((u.width-nameWidth)/2-9, 8) }

// histogramBar returns the bar of a bucket with its number.
func histogramBar(h *observe.Histogram, bucket, width int) string {
	var most uint64
	for _, v := range h {
		most = max(most, v)
	}
	if most == 0 {
		return count(h[bucket])
	}
	b := bar(float64(h[bucket])/float64(most), width)
	return fmt.Sprintf("%-*s %s", width, b, count(h[bucket]))
}

// bucketName returns the times of a bucket.
func bucketName(i int) string {
	if d := restrack.BucketBound(i); d >= 0 {
		return "below " + exact(d)
	}
	return "longer"
}

// exact returns a bound of a bucket: a power of two in nanoseconds.
func exact(d time.Duration) string {
	if d >= time.Microsecond {
		return period(d)
	}
	return strconv.FormatInt(int64(d), 10) + "ns"
}

// group is a group of fields.
type group struct {
	title  string
	fields []field
}

// connectionFields returns what a detail says of a connection.
func connectionFields() []group {
	return []group{
		{"", []field{
			{"adapter", func(e end) string { return e.a.Name + ", " + e.a.state() }},
			{"process", func(e end) string { return fmt.Sprintf("%s, PID %d, user %d", e.a.Command, e.a.PID, e.a.UID) }},
			{"QPN", func(e end) string { return e.c.Num.String() }},
			{"type, state", func(e end) string { return fmt.Sprintf("%v, %v", e.c.Type, e.c.State) }},
			{"address", func(e end) string { return fmt.Sprintf("%s, UDP port %d", address(e.c.Local), e.c.SrcPort) }},
			{"peer", func(e end) string { return address(e.c.Remote) + ", QPN " + queuePair(e.c.Peer) }},
			{"path", func(e end) string {
				return fmt.Sprintf("MTU %s, P_Key 0x%04x, %v", mtu(e.c.MTU), uint16(e.c.PKey), e.c.Mig)
			}},
			{"queues", func(e end) string { return fmt.Sprintf("send %d, receive %d", e.c.MaxSend, e.c.MaxRecv) }},
			{"objects", func(e end) string {
				return fmt.Sprintf("PD %s, CQs %s and %s", number(e.c.PD), number(e.c.SendCQ), number(e.c.RecvCQ))
			}},
			{"SRQ, XRCD, CM ID", func(e end) string {
				return fmt.Sprintf("%s, %s, %s", number(e.c.SRQ), number(e.c.XRCD), number(e.c.CM))
			}},
		}},
		{"Under way", []field{
			{"next PSN to send", func(e end) string { return psn(e.c.SendPSN) }},
			{"not acknowledged", func(e end) string { return psn(e.c.AckPSN) }},
			{"next PSN to receive", func(e end) string { return psn(e.c.RecvPSN) }},
			{"in flight", func(e end) string { return size(e.c.InFlight) + " of a window of " + size(e.c.Window) }},
			{"work requests", func(e end) string { return count(e.c.Outstanding) }},
			{"round trip", func(e end) string { return nanoseconds(e.c.RTT) }},
		}},
		{"Traffic", []field{
			{"sent now", func(e end) string { return e.c.now(e.c.change.SentRate(), e.c.change.SentBits()) }},
			{"received now", func(e end) string { return e.c.now(e.c.change.RcvdRate(), e.c.change.RcvdBits()) }},
			{"sent", func(e end) string { return traffic(e.c.SentMessages, e.c.SentBytes, e.c.SentPackets) }},
			{"received", func(e end) string { return traffic(e.c.RcvdMessages, e.c.RcvdBytes, e.c.RcvdPackets) }},
		}},
		{"Trouble", []field{
			{"retransmitted", func(e end) string { return grown(e.c.Retransmitted, e.c.change.Retransmitted) }},
			{"timeouts", func(e end) string { return grown(e.c.Timeouts, e.c.change.Timeouts) }},
			{"RNR NAKs", func(e end) string { return fmt.Sprintf("sent %s, received %s", count(e.c.RNRSent), count(e.c.RNRRcvd)) }},
			{"sequence NAKs", func(e end) string { return count(e.c.SeqErrors) }},
			{"errors", func(e end) string { return e.c.errors() }},
		}},
	}
}

// psn returns a PSN, or what a table has in its place.
func psn(n uint64) string { return fmt.Sprintf("0x%06x", n) }

// mtu returns a path MTU in bytes, or its code if it has no size.
func mtu(m ib.MTU) string {
	switch {
	case m == 0:
		return none
	case m.Valid():
		return strconv.Itoa(m.Bytes())
	}
	return fmt.Sprintf("MTU(%d)", uint8(m))
}

// now returns the rates of a direction.
func (c *connection) now(messages, bits float64) string {
	if !c.known {
		return none
	}
	return fmt.Sprintf("%s messages/s, %s Gb/s", perSecond(messages), gigabits(bits))
}

func traffic(messages, bytes, packets uint64) string {
	return fmt.Sprintf("%s messages, %s bytes, %s packets", count(messages), size(bytes), count(packets))
}

// grown returns a counter and by how much it grew in the last interval.
func grown(all, now uint64) string {
	if now == 0 {
		return count(all)
	}
	return fmt.Sprintf("%s, %s now", count(all), count(now))
}

// errors returns the errors of completions.
func (c *connection) errors() string {
	if c.Errors == 0 {
		return "0"
	}
	return fmt.Sprintf("%s, last %v at %s UTC", count(c.Errors), c.LastStatus, c.LastAt.UTC().Format("2006-01-02 15:04:05"))
}

// adapterLines returns the detail of an adapter: every counter, with its rate.
func adapterLines(a *adapter) []line {
	value := func(name, text string) line { return line{name: name, values: [2]string{text, ""}} }
	lines := []line{
		value("adapter", a.Name+", "+a.state()),
		value("process", fmt.Sprintf("%s, PID %d in PID namespace %d, user %d", a.Command, a.PID, a.PIDNS, a.UID)),
		value("address", fmt.Sprintf("%s, slot %d, network namespace %d", address(a.Addr), a.Slot, a.NetNS)),
		value("GUID", ib.GUID(a.GUID).String()),
		value("open since", a.Started.UTC().Format("2006-01-02 15:04:05")+" UTC"),
		value("objects", fmt.Sprintf("QPs %d, CQs %d, MRs %d, PDs %d, SRQs %d, CM IDs %d, XRCDs %d; not shown: %s",
			len(a.QPs), len(a.CQs), len(a.MRs), len(a.PDs), len(a.SRQs), len(a.CMIDs), len(a.XRCDs), (&row{a: a}).missing())),
		value("table", a.Path),
		{},
		{name: "Counters that are not 0", style: Title},
	}
	var changes []uint64
	a.eachCounter(&a.change, func(_ string, v uint64) { changes = append(changes, v) })
	now := observe.AdapterChange{Counters: a.Counters, Port: a.Port}
	i := 0
	a.eachCounter(&now, func(name string, v uint64) {
		if rate := none; v != 0 {
			if a.known {
				rate = perSecond(observe.PerSecond(changes[i], a.change.Elapsed)) + "/s"
			}
			lines = append(lines, line{name, [2]string{count(v), rate}, Plain})
		}
		i++
	})
	return lines
}

// eachCounter calls f for the counters of the adapter and those of its port.
func (a *adapter) eachCounter(c *observe.AdapterChange, f func(name string, v uint64)) {
	c.Counters.Each(f)
	eachPort(&c.Port, f)
}
