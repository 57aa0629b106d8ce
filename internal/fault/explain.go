package fault

import (
	"fmt"
	"slices"
	"strings"

	"github.com/softhca/softhca/ib"
)

// Explain says in a sentence what the rule does, and when.
func (r *Rule) Explain() string {
	what := r.subject()
	var s string
	switch r.Action {
	case Drop, Partition:
		s = "loses " + what
	case Dup:
		s = "delivers " + what + " twice"
	case Delay:
		s = fmt.Sprintf("delivers %s %v late", what, r.Duration(Time))
	case Corrupt:
		s = "changes " + r.place() + " of " + what + r.sealing("the receiver drops it")
	case Truncate:
		s = fmt.Sprintf("cuts %s to %d bytes%s", what, r.num(Length, 0), r.sealing("the receiver drops it"))
	case Reorder:
		s = fmt.Sprintf("holds %s back until %d of its queue pair overtook it, at most %v", what, r.num(By, 1), maxLate)
	case Rate:
		s = fmt.Sprintf("limits %s to %s, with at most %d in a queue", what, r.values[Speed].text, r.num(Queue, defaultQueue))
	case Gone:
		s = "makes the adapter fail before " + what + " is sent or received"
	case Kill:
		s = "kills the process before " + what + " is sent or received"
	case Stop:
		s = "stops the process before " + what + " is sent or received"
	case Reject:
		s = "rejects " + what + " with reason " + r.values[Reason].text
	case RNR:
		s = "answers " + what + " with an RNR NAK"
	case NAK:
		s = "answers " + what + " with NAK " + r.values[Syndrome].text + " instead of executing it"
	case WC, BindFail:
		s = "makes " + what + " fail with " + r.Status().String()
	case Fail:
		s = "makes " + what + " fail with " + r.ErrnoName()
	case QP:
		s = "moves " + r.target("every queue pair", "the queue pair of "+what) + " to " + r.State().String()
	case FillCQ:
		s = "overflows " + r.target("every completion queue", "the send completion queue of the queue pair of "+what)
	case Event:
		s = "raises " + r.Event().String() + r.target("", " at "+what)
	default:
		panic("fault: an action that nothing explains")
	}
	return s + r.limits() + r.when()
}

// target returns timed for a timed rule, otherwise called.
func (r *Rule) target(timed, called string) string {
	if !r.Timed() {
		return called
	}
	n, named := r.QPN()
	switch {
	case named && r.Action == QP:
		return "queue pair " + n.String()
	case named && r.Action == FillCQ:
		return "the send completion queue of queue pair " + n.String()
	case named:
		return " about queue pair " + n.String()
	}
	return timed
}

func (r *Rule) sealing(otherwise string) string {
	if r.Has(Reseal) {
		return " with a right ICRC"
	}
	if r.Has(Byte) && r.num(Byte, 0) == unsealed || r.Has(Bit) && r.num(Bit, 0)/8 == unsealed {
		return " (which no ICRC covers)"
	}
	return " (" + otherwise + ")"
}

// ErrnoName returns the name of the error of a Fail rule.
func (r *Rule) ErrnoName() string {
	for _, e := range errnos {
		if ib.Errno(e.num) == r.Errno() {
			return e.name
		}
	}
	return r.Errno().Error()
}

// place names the byte or bit that corrupt changes.
func (r *Rule) place() string {
	switch {
	case r.Has(Bit):
		return "bit " + r.values[Bit].text
	case r.Has(Byte):
		return "byte " + r.values[Byte].text
	default:
		return "a random bit"
	}
}

// subject names what the rule acts on: "the 3rd outgoing packet with …".
func (r *Rule) subject() string {
	first, once := r.nth()
	var s string
	switch {
	case r.Has(Nth) && r.Has(Every):
		s = fmt.Sprintf("the %s, and from there every %s,", ordinal(first), ordinal(r.values[Every].num))
	case once:
		s = "the " + ordinal(first)
	case r.Has(Every):
		s = "every " + ordinal(r.values[Every].num)
	default:
		s = "each"
	}
	s += " " + r.noun()
	if r.Has(Op) {
		s += r.kinds()
	}
	for _, q := range [...]struct {
		p    Param
		text string
	}{{QPN, " for queue pair "}, {PSN, " with PSN "}, {Src, " from "}, {Dst, " to "}} {
		if r.Has(q.p) {
			s += q.text + r.values[q.p].text
		}
	}
	if r.Has(Path) {
		s += " over the " + r.values[Path].text + " path"
	}
	if r.Has(Process) {
		s += " in process " + r.values[Process].text
	}
	return s
}

// kinds names the packets that op= chooses.
func (r *Rule) kinds() string {
	v := &r.values[Op]
	names := strings.ReplaceAll(v.text, ",", " or ")
	switch {
	case v.ops.messages == 0:
		return " with opcode " + names
	case v.ops.opcodes():
		return " with opcode or CM message " + names
	case names == allMessages:
		return " with a CM message"
	default:
		return " with the CM message " + names
	}
}

func (r *Rule) noun() string {
	switch r.Action.Layer() {
	case Packets:
		return [...]string{Out: "outgoing packet", In: "incoming packet", Both: "packet in either direction"}[r.Dir()]
	case Responder:
		if r.Action == RNR {
			return "request that needs a receive"
		}
		return "incoming request"
	case Connections:
		return "request for a connection"
	case Requests:
		switch {
		case r.Has(Request):
			return strings.ReplaceAll(r.values[Request].text, ",", " or ")
		case r.Action == BindFail:
			return "BIND_MW or LOCAL_INV"
		}
		return "work request that can fail so"
	default:
		if strings.HasPrefix(r.Call(), "Post") {
			return "work request of " + r.Call()
		}
		return "call of " + r.Call()
	}
}

// limits describes how often the rule acts.
func (r *Rule) limits() (s string) {
	if r.Has(P) {
		s += ", with probability " + r.values[P].text
	}
	if r.Has(Count) {
		s += fmt.Sprintf(", at most %s times", r.values[Count].text)
	}
	return s
}

// when describes from when and for how long the rule acts.
func (r *Rule) when() (s string) {
	switch {
	case r.Timed():
		s += fmt.Sprintf(", %v after the adapter opened", r.Duration(After))
	case r.Has(After):
		s += fmt.Sprintf(", from %v after the adapter opened", r.Duration(After))
	}
	if r.Has(For) {
		s += fmt.Sprintf(", for %v", r.Duration(For))
	}
	return s
}

// ordinal returns "1st", "2nd" and so on.
func ordinal(n int64) string {
	suffix := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return fmt.Sprintf("%d%s", n, suffix)
}

// Usage shows how rules of the action are written, without the selectors.
func (a Action) Usage() string {
	info := &actions[a]
	s := info.name
	for _, p := range info.args {
		w := placeholder(info, p)
		if !slices.Contains(info.required, p) {
			w = "[" + w + "]"
		}
		s += " " + w
	}
	for _, p := range info.required {
		if !slices.Contains(info.args, p) {
			s += " " + placeholder(info, p)
		}
	}
	return s
}
