package fault

import (
	"math/rand/v2"
	"net/netip"
	"sync/atomic"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// Live is a rule with its state. One thread at a time may use it; any thread
// may call Stat.
type Live struct {
	Rule
	text  string
	rand  *rand.Rand
	first int64 // number of the first match at which it acts
	once  bool  // it acts only at that match

	matched  *atomic.Uint64 // the counter of matches, which the rules of several adapters may share
	applied  atomic.Uint64
	overflow atomic.Uint64

	free    clock.Instant // Rate: when the next packet may pass
	waiting int           // Rate: packets in the queue
	late    *held         // Reorder: the held packet
}

// NewLive returns the rule with new state. index tells rules with the same seed
// apart, so that each draws its own numbers.
func NewLive(r Rule, seed uint64, index int) *Live {
	l := &Live{Rule: r, text: r.String(), matched: new(atomic.Uint64), rand: rand.New(rand.NewPCG(seed, uint64(index)))}
	l.first, l.once = r.nth()
	return l
}

// CountIn makes the rule count its matches in n, which rules of several adapters may share: nth= then counts in all of them.
func (l *Live) CountIn(n *atomic.Uint64) { l.matched = n }

// Subject is the packet or call to which a rule is applied. A packet has no
// Call; a call has only Call and a QPN.
type Subject struct {
	Dir      Direction
	Op       roce.Opcode
	Syndrome roce.Syndrome // of an acknowledge
	Message  mad.AttrID    // of the CM; 0 if it is none
	Readable bool          // the headers could be parsed
	QPN      ib.QPN
	PSN      ib.PSN
	Src, Dst netip.Addr
	SrcPort  uint16
	Way      Way
	Call     string      // the name of the verb, for rules on verbs
	Request  ib.WROpcode // the work request, for rules on these
}

// Active reports whether the rule can act at this time.
func (l *Live) Active(now clock.Instant) bool {
	after := clock.Instant(l.Duration(After))
	switch {
	case now < after:
		return false
	case l.Has(For) && now >= after.Add(l.Duration(For)):
		return false
	case l.once && int64(l.matched.Load()) >= l.first:
		return false
	case l.Has(Count) && int64(l.applied.Load()) >= l.values[Count].num:
		return false
	}
	return true
}

// Fires counts a match and reports whether the rule acts on it.
func (l *Live) Fires(now clock.Instant, s *Subject) bool {
	if !l.Active(now) || !l.matches(s) {
		return false
	}
	n := int64(l.matched.Add(1))
	switch {
	case n < l.first, l.once && n != l.first:
		return false
	case l.Has(Every) && !l.turn(n):
		return false
	case l.Has(P) && l.rand.Float64() >= l.values[P].share:
		return false
	}
	return true
}

// turn reports whether every= selects match n, counting from the first match of
// nth=.
func (l *Live) turn(n int64) bool {
	every := l.values[Every].num
	if l.Has(Nth) {
		return (n-l.first)%every == 0
	}
	return n%every == 0
}

// matches reports whether the selectors other than the counting ones match.
func (l *Live) matches(s *Subject) bool {
	switch l.Action.Layer() {
	case Verbs:
		return s.Call == l.Call() && (!l.Has(QPN) || s.QPN == ib.QPN(l.values[QPN].num))
	case Requests:
		return (!l.Has(Request) || l.values[Request].num>>s.Request&1 != 0) && (!l.Has(QPN) || s.QPN == ib.QPN(l.values[QPN].num))
	case Connections:
		return !l.Has(Src) || s.Src == l.values[Src].addr
	case Packets:
		if s.Dir&l.Dir() == 0 {
			return false
		}
	}
	switch {
	case l.Has(Op) && (!s.Readable || !l.values[Op].ops.has(s)):
		return false
	case l.Has(QPN) && (!s.Readable || s.QPN != ib.QPN(l.values[QPN].num)):
		return false
	case l.Has(PSN) && (!s.Readable || s.PSN != ib.NewPSN(uint32(l.values[PSN].num))):
		return false
	case l.Has(Src) && s.Src != l.values[Src].addr:
		return false
	case l.Has(Dst) && s.Dst != l.values[Dst].addr:
		return false
	case l.Has(Path) && s.Way != Way(l.values[Path].num):
		return false
	}
	return true
}

// Applied counts one action of the rule.
func (l *Live) Applied() { l.applied.Add(1) }

// Text returns the text of the rule.
func (l *Live) Text() string { return l.text }

// Stat holds the counts of a rule.
type Stat struct {
	Rule     string `json:"rule"`               // text of the rule
	Matched  uint64 `json:"matched"`            // packets or calls that matched its selectors other than the counting ones
	Applied  uint64 `json:"applied"`            // number of times that the rule acted
	Overflow uint64 `json:"overflow,omitempty"` // packets dropped at the limit of held packets
}

// Stat returns the counts of the rule.
func (l *Live) Stat() Stat {
	return Stat{l.text, l.matched.Load(), l.applied.Load(), l.overflow.Load()}
}
