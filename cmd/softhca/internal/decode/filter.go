package decode

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/softhca/softhca/cmd/softhca/internal/text"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// maxTerms is the maximum number of values of one kind of filter.
const maxTerms = 1000

// Filter selects packets: a packet must match one value of each kind given. The zero
// value selects all packets.
type Filter struct {
	qps   []uint32
	ops   []string
	addrs []netip.Prefix
	times []span
}

// span is a time from one moment to another. An end that is nil is open.
type span struct{ from, to *moment }

// moment is a date and time or, if that is zero, a time since the first RoCE packet.
type moment struct {
	at    time.Time
	since time.Duration
}

// AddQP selects packets to a queue pair, and datagrams from it, by its number such as
// 17 or 0x11.
func (f *Filter) AddQP(s string) error {
	n, err := strconv.ParseUint(s, 0, 24)
	if err != nil {
		return fmt.Errorf("%q: want the number of a queue pair, such as 0x11 or 17, up to 0xffffff", s)
	}
	f.qps = append(f.qps, uint32(n))
	return bounded(len(f.qps))
}

// AddOp selects an operation: the name of an opcode such as RC_SEND_ONLY, some of
// its words (SEND, WRITE, UD), a kind of acknowledgement (ACK, NAK, RNR_NAK) or
// a message of the connection manager (REQ), in any case.
func (f *Filter) AddOp(s string) error {
	op := strings.ReplaceAll(strings.ToUpper(s), "-", "_")
	known := operations()
	if !slices.ContainsFunc(known, func(name string) bool { return hasWords(name, op) }) {
		hint := text.DidYouMean(op, "", vocabulary(known))
		if hint == "" {
			hint = ": want an opcode such as RC_SEND_ONLY, some of its words such as SEND, WRITE or UD, ACK or NAK, or a message such as REQ"
		}
		return fmt.Errorf("there is no operation %q%s", s, hint)
	}
	f.ops = append(f.ops, op)
	return bounded(len(f.ops))
}

// Words returns the values of AddOp that are single words.
func Words() []string { return vocabulary(operations()) }

// AddAddr selects packets to or from an address or a network, such as 10.0.0.1 or
// fd00::/8.
func (f *Filter) AddAddr(s string) error {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		addr, err := netip.ParseAddr(s)
		if err != nil {
			return fmt.Errorf("%q: want an address such as 10.0.0.1 or fd00::1, or a network such as 10.0.0.0/8", s)
		}
		p = netip.PrefixFrom(addr.Unmap().WithZone(""), addr.Unmap().BitLen())
	}
	f.addrs = append(f.addrs, p)
	return bounded(len(f.addrs))
}

// AddTime selects the packets from one time to another, both included: "1.5..2",
// "..10ms" and "3s.." since the first RoCE packet, which the second column of the
// text shows, or dates such as 2026-01-31T12:00:00Z.
func (f *Filter) AddTime(s string) error {
	from, to, ranged := strings.Cut(s, "..")
	if !ranged || from == "" && to == "" {
		return fmt.Errorf("%q: want a range such as 2026-01-31T12:00:00Z.., 1.5..2 or ..10ms", s)
	}
	var r span
	for _, end := range [...]struct {
		text string
		to   **moment
	}{{from, &r.from}, {to, &r.to}} {
		if end.text == "" {
			continue
		}
		m, err := parseMoment(end.text)
		if err != nil {
			return err
		}
		*end.to = m
	}
	if a, b := r.from, r.to; a != nil && b != nil && a.at.IsZero() == b.at.IsZero() && (a.at.After(b.at) || a.since > b.since) {
		return fmt.Errorf("%q ends before it begins", s)
	}
	f.times = append(f.times, r)
	return bounded(len(f.times))
}

func bounded(n int) error {
	if n > maxTerms {
		return fmt.Errorf("more than %d values", maxTerms)
	}
	return nil
}

// parseMoment parses one end of a range of time.
func parseMoment(s string) (*moment, error) {
	for _, layout := range [...]string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999"} {
		if t, err := time.Parse(layout, s); err == nil {
			return &moment{at: t}, nil
		}
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		s += "s"
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return nil, fmt.Errorf("%q: want seconds or a time with its unit since the first packet, such as 1.5 or 20ms, or a date such as 2026-01-31T12:00:00Z", s)
	}
	return &moment{since: d}, nil
}

// compare returns whether a packet is before (-1), at (0) or after (1) m. A packet less
// than a microsecond from m is at m: the text shows microseconds only.
func (m *moment) compare(p *Packet, sinceFirst time.Duration) int {
	d := sinceFirst - m.since
	if !m.at.IsZero() {
		d = p.Time.Sub(m.at)
	}
	switch {
	case d <= -time.Microsecond:
		return -1
	case d >= time.Microsecond:
		return 1
	default:
		return 0
	}
}

// chooses reports whether the filter selects the packet.
func (f *Filter) chooses(p *Packet, sinceFirst time.Duration) bool {
	return oneOf(f.times, func(s span) bool {
		return (s.from == nil || s.from.compare(p, sinceFirst) >= 0) && (s.to == nil || s.to.compare(p, sinceFirst) <= 0)
	}) && oneOf(f.addrs, func(a netip.Prefix) bool {
		return a.Contains(p.Src) || a.Contains(p.Dst)
	}) && oneOf(f.qps, func(qp uint32) bool {
		return p.BTH != nil && p.BTH.DestQPN == qp || p.DETH != nil && p.DETH.SrcQPN == qp
	}) && oneOf(f.ops, p.is)
}

// oneOf reports whether suits is true for an element of all, or all is empty.
func oneOf[T any](all []T, suits func(T) bool) bool {
	return len(all) == 0 || slices.ContainsFunc(all, suits)
}

// is reports whether the packet has an operation in the form of AddOp.
func (p *Packet) is(op string) bool {
	if p.BTH == nil {
		return false
	}
	if p.MAD != nil && p.MAD.Message == op {
		return true
	}
	if p.AETH != nil {
		switch s := roce.Syndrome(p.AETH.Syndrome); {
		case s.IsACK() && op == "ACK":
			return strings.HasSuffix(p.BTH.Name, "ACKNOWLEDGE") // a READ response is no ACK
		case s.IsRNR() || s.IsNAK():
			if name, _, _ := strings.Cut(p.AETH.Name, "("); op == "NAK" || hasWords(name, op) {
				return true
			}
		}
	}
	return hasWords(p.BTH.Name, op)
}

// hasWords reports whether op is name, or consecutive whole words of it.
func hasWords(name, op string) bool {
	return op != "" && strings.Contains("_"+name+"_", "_"+op+"_")
}

// operations returns the names that AddOp accepts.
func operations() (names []string) {
	for o := range 256 {
		if op := roce.Opcode(o); op.Info().Known {
			names = append(names, op.String())
		}
	}
	for code := range uint8(32) {
		name, _, _ := strings.Cut(roce.Syndrome(0x60|code).String(), "(")
		names = append(names, name)
	}
	for attr := mad.AttrREQ; attr <= mad.AttrAPR; attr++ {
		names = append(names, attr.String())
	}
	return append(names, "ACK", "RNR_NAK")
}

// vocabulary returns names and each of their words, once.
func vocabulary(names []string) (all []string) {
	for _, name := range names {
		all = append(append(all, name), strings.Split(name, "_")...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
