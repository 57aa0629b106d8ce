package fault

import (
	"strings"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// Rule is one rule, as Parse returns it.
type Rule struct {
	Action Action
	given  uint32 // set of Param
	values [NumParams]value
}

// Has reports whether the rule gives the parameter.
func (r *Rule) Has(p Param) bool { return r.given>>p&1 != 0 }

func (r *Rule) set(p Param, v value) {
	r.given |= 1 << p
	r.values[p] = v
}

// num returns a number of the rule, or without if the rule does not have it.
func (r *Rule) num(p Param, without int64) int64 {
	if r.Has(p) {
		return r.values[p].num
	}
	return without
}

// Duration returns the value of After, For or Time; 0 if the rule gives none.
func (r *Rule) Duration(p Param) time.Duration { return time.Duration(r.num(p, 0)) }

// Errno returns the error of a Fail rule.
func (r *Rule) Errno() ib.Errno { return ib.Errno(r.num(Errno, int64(ib.ENOMEM))) }

// Syndrome returns the answer of an RNR or NAK rule.
func (r *Rule) Syndrome() roce.Syndrome {
	return roce.Syndrome(r.num(Syndrome, int64(roce.RNRNAK(0))))
}

// Status returns the status with which a WC or BindFail rule makes a request fail.
func (r *Rule) Status() ib.WCStatus {
	if r.Action == BindFail {
		return ib.WCMWBindErr
	}
	return ib.WCStatus(r.num(Status, 0))
}

// Reason returns the reason of a Reject rule.
func (r *Rule) Reason() mad.RejReason { return mad.RejReason(r.num(Reason, 0)) }

// Event returns the event of an Event rule.
func (r *Rule) Event() ib.EventType { return ib.EventType(r.num(Type, 0)) }

// State returns the state to which a QP rule moves the queue pair.
func (r *Rule) State() ib.QPState { return ib.QPState(r.num(To, int64(ib.ERR))) }

// QPN returns the queue pair that a rule names.
func (r *Rule) QPN() (ib.QPN, bool) { return ib.QPN(r.num(QPN, 0)), r.Has(QPN) }

// Times returns the greatest number of times that the rule acts, if it has one.
func (r *Rule) Times() (n int64, has bool) { return r.num(Count, 0), r.Has(Count) }

// Process returns the process to which the rule is limited; "" for all.
func (r *Rule) Process() string { return r.values[Process].text }

// Op returns the value of op=: packets, work requests, or a call; "" if the rule has none.
func (r *Rule) Op() string {
	if r.Action.Layer() == Verbs {
		return r.Call()
	}
	return r.values[Op].text + r.values[Request].text // a rule has at most one
}

// Call returns the name of the call of a rule on verbs.
func (r *Rule) Call() string {
	if r.Has(Call) {
		return r.values[Call].text
	}
	return postSend
}

// Dir returns the directions of a rule on packets.
func (r *Rule) Dir() Direction {
	switch {
	case r.Has(Dir):
		return Direction(r.num(Dir, 0))
	case r.Action == Partition, r.Has(Op), r.Has(Path):
		return Both
	default:
		return Out
	}
}

// counting holds the parameters with which a rule on verbs acts at calls.
const counting = 1<<Nth | 1<<Every | 1<<P | 1<<Count | 1<<For | 1<<Call

// Timed reports whether a rule on verbs acts by itself, once, at a time
// (after=) rather than when something is called.
func (r *Rule) Timed() bool {
	return r.Action.Layer() == Verbs && r.Action != Fail && r.Has(After) && r.given&counting == 0
}

// nth returns the first match at which the rule acts, and whether it acts only
// there. A rule that moves, overflows or raises something acts once unless it
// specifies otherwise.
func (r *Rule) nth() (first int64, once bool) {
	if r.Action.Layer() == Verbs && r.Action != Fail && r.given&(1<<Nth|1<<Every|1<<P|1<<Count) == 0 {
		return 1, true
	}
	return r.num(Nth, 1), r.Has(Nth) && !r.Has(Every)
}

// String returns the rule in its canonical spelling: Parse of it returns an
// equal rule.
func (r Rule) String() string {
	info := &actions[r.Action]
	var b strings.Builder
	b.WriteString(info.name)
	for p := range NumParams {
		if !r.Has(p) {
			continue
		}
		b.WriteByte(' ')
		switch {
		case info.bare && p == info.args[0]:
			b.WriteString(r.values[p].text)
		case params[p].kind == kindFlag:
			b.WriteString(params[p].name)
		default:
			b.WriteString(params[p].name)
			b.WriteByte('=')
			b.WriteString(r.values[p].text)
		}
	}
	return b.String()
}
