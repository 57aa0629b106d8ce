package explore

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fault"
	"github.com/softhca/softhca/internal/fault/sites"
	"github.com/softhca/softhca/mad"
)

// The kinds of faults.
const (
	KindCall    = "call"    // a call returns an error
	KindWC      = "wc"      // a work request completes with an error
	KindCM      = "cm"      // a message of the connection manager is lost, repeated, late or answered with a rejection
	KindPacket  = "packet"  // another packet is lost, repeated or late
	KindRNR     = "rnr"     // a request finds no receive
	KindEvent   = "event"   // an asynchronous event is raised, with its cause if it has one
	KindProcess = "process" // a process is killed, or stopped for a while
)

// Kinds returns the kinds of faults.
func Kinds() []string {
	return []string{KindCall, KindWC, KindCM, KindPacket, KindRNR, KindEvent, KindProcess}
}

// Fault is one thing that goes wrong in one process.
type Fault struct {
	Process string `json:"process"` // the name of its program, a dot, and a number from 1 on
	Kind    string `json:"kind"`    // call, wc, cm, packet, rnr, event or process
	What    string `json:"what"`    // the call, the opcode of the work request, or the packets
	Nth     uint64 `json:"nth"`     // which of these in the process, from 1 on
	Of      uint64 `json:"of"`      // how many of these the process had in the first run; work requests count only if they can have this error
	Error   string `json:"error"`   // the error number, the completion status, the event, or what happens to the packet or the process
	Rule    string `json:"rule"`    // of --fault and --replay

	longer time.Duration // how much longer the run may take
	steady bool          // no timer may be shorter than usual
	stops  bool          // a process is stopped, and continued after a while
}

// String says in words what goes wrong.
func (f *Fault) String() string {
	counted := fmt.Sprintf("%s %d of %d", f.What, f.Nth, f.Of)
	switch f.Kind {
	case KindCall:
		return fmt.Sprintf("%s: call of %s fails with %s", f.Process, counted, f.Error)
	case KindWC:
		return fmt.Sprintf("%s: %s fails with %s", f.Process, counted, f.Error)
	case KindEvent:
		return fmt.Sprintf("%s: %s at %s", f.Process, f.Error, counted)
	case KindProcess:
		return fmt.Sprintf("%s is %s at %s", f.Process, f.Error, counted)
	}
	return fmt.Sprintf("%s: %s is %s", f.Process, counted, f.Error)
}

// FaultOf returns the fault of a rule.
func FaultOf(r *fault.Rule) Fault {
	f := Fault{Process: r.Process(), What: r.Op(), Rule: r.String()}
	switch r.Action.Layer() {
	case fault.Packets:
		f.ofPacket(r)
	case fault.Connections:
		f.Kind, f.What, f.Error = KindCM, mad.AttrREQ.String(), "rejected: "+r.Reason().String()
	case fault.Responder:
		f.longer = rnrTimes * longestRNR
		f.Kind, f.Error = KindRNR, "refused with an RNR NAK"
		if n, has := r.Times(); has {
			f.Error += fmt.Sprintf(" %d times", n)
		}
	case fault.Requests:
		f.Kind, f.Error = KindWC, r.Status().String()
	case fault.Verbs:
		f.ofCall(r)
	}
	return f
}

// ofPacket completes the fault of a rule on packets.
func (f *Fault) ofPacket(r *fault.Rule) {
	f.Kind = KindPacket
	if fault.IsMessage(f.What) {
		f.Kind = KindCM
	}
	switch r.Action {
	case fault.Drop:
		f.Error = "lost"
		if r.Has(fault.Every) {
			f.Error = "lost, and so are later ones"
		}
	case fault.Dup:
		f.Error = "doubled"
	case fault.Delay:
		f.longer, f.steady = r.Duration(fault.Time), true
		f.Error = "late by " + f.longer.String()
	case fault.Gone:
		f.Kind, f.Error = KindEvent, ib.EventDeviceFatal.String()
	case fault.Kill:
		f.Kind, f.Error = KindProcess, "killed"
	case fault.Stop:
		f.longer, f.steady, f.stops = stopped, true, true
		f.Kind, f.Error = KindProcess, "stopped for "+stopped.String()
	default:
		f.Error = r.Action.String()
	}
	switch {
	case f.Kind != KindProcess && f.Kind != KindEvent:
	case r.Dir() == fault.In:
		f.What += " received"
	default:
		f.What += " sent"
	}
}

// ofCall completes the fault of a rule on verbs.
func (f *Fault) ofCall(r *fault.Rule) {
	f.Kind = KindEvent
	switch r.Action {
	case fault.QP:
		f.Error = ib.EventQPFatal.String()
	case fault.FillCQ:
		f.Error = ib.EventCQErr.String()
	case fault.Event:
		f.Error = r.Event().String()
	default:
		f.Kind, f.Error = KindCall, r.ErrnoName()
	}
}

// Selection says which faults are tried.
type Selection struct {
	Kinds []string // nil: all
	All   bool     // every call, request and packet, not only the first, the middle and the last of its kind in its process
}

// maxFaults bounds the faults of a plan.
const maxFaults = 100_000

// plan collects faults.
type plan struct {
	Selection
	all  []ranked
	cut  uint64 // how many more there are
	late time.Duration
}

// ranked is a fault and its place in the order: the first of each kind of thing comes before the last and the middle of any.
type ranked struct {
	Fault
	rank int
}

// Plan returns the faults that can befall the processes of a run. cut is how many more there are than a plan holds.
func Plan(processes []sites.Process, s Selection) (all []Fault, cut uint64) {
	p := plan{Selection: s, late: lateness(processes)}
	for i := range processes {
		q := &processes[i]
		p.calls(q)
		p.requests(q)
		p.packets(q)
		p.events(q)
	}
	slices.SortStableFunc(p.all, func(a, b ranked) int { return a.rank - b.rank })
	for i := range p.all {
		all = append(all, p.all[i].Fault)
	}
	return all, p.cut
}

// add adds a fault of a process at several of count things. rule has a place for the number.
func (p *plan) add(process string, count uint64, rule string) {
	rule += " process=" + process
	f := faultOf(fmt.Sprintf(rule, 1))
	if !p.has(f.Kind) || count == 0 {
		return
	}
	some, total := p.which(count)
	p.cut += total - uint64(len(some))
	for i, n := range some {
		if len(p.all) == maxFaults {
			p.cut += uint64(len(some) - i)
			return
		}
		f.Nth, f.Of, f.Rule = n, count, fmt.Sprintf(rule, n)
		p.all = append(p.all, ranked{f, i})
	}
}

// faultOf returns the fault of the text of a rule.
func faultOf(rule string) Fault {
	rules, err := fault.Parse(rule)
	if err != nil {
		panic(err) // the rules are those of this file
	}
	return FaultOf(&rules[0])
}

// calls adds the faults of the calls.
func (p *plan) calls(q *sites.Process) {
	for _, c := range q.Calls {
		p.add(q.Name, c.N, "fail errno="+errnoOf(c.What)+" nth=%d op="+c.What)
	}
}

// requests adds the faults of the work requests.
func (p *plan) requests(q *sites.Process) {
	for _, c := range q.Requests {
		p.add(q.Name, c.N, "wc "+c.Status.String()+" nth=%d op="+c.What)
	}
}

const (
	stopped    = 5 * time.Second           // how long a process is stopped
	cmLate     = 5 * time.Second           // how late a message is: later than the first repetition of a REQ of librdmacm
	longestRNR = 655360 * time.Microsecond // the longest time between two RNR retries
	rnrTimes   = 8                         // how often a request finds no receive: more often than the verbs let a program bound
)

// rejections are the reasons with which a request for a connection may be rejected that programs treat differently.
var rejections = []string{"CONSUMER", "INVALID_SERVICE_ID", "NO_RESOURCES", "STALE_CONNECTION"}

// packets adds the faults of the packets, and those of the process at its packets.
func (p *plan) packets(q *sites.Process) {
	for _, c := range distinct(q.Packets[sites.Sent]) {
		late := p.late
		if fault.IsMessage(c.What) {
			late = cmLate
		}
		for _, rule := range []string{"drop nth=%d", "drop nth=%d every=1", "dup nth=%d", "delay " + late.String() + " nth=%d", "gone nth=%d", "kill nth=%d", "stop nth=%d"} {
			p.add(q.Name, c.N, rule+" op="+c.What+" dir=out")
		}
	}
	for _, c := range distinct(q.Packets[sites.Received]) {
		p.add(q.Name, c.N, "kill nth=%d op="+c.What+" dir=in")
	}
	for _, c := range distinct(q.Packets[sites.Taken]) {
		if !fault.IsMessage(c.What) {
			p.add(q.Name, c.N, "rnr nth=%d op="+c.What)
			p.add(q.Name, c.N, fmt.Sprintf("rnr nth=%%d every=1 count=%d op=%s", rnrTimes, c.What))
			continue
		}
		for _, why := range rejections {
			p.add(q.Name, c.N, "reject "+why+" nth=%d")
		}
	}
}

// distinct returns the classes of packets without those whose packets are all in narrower ones.
func distinct(all []sites.Count) []sites.Count {
	return slices.DeleteFunc(slices.Clone(all), func(c sites.Count) bool {
		inside := uint64(0)
		for _, d := range all {
			if fault.Covers(c.What, d.What) {
				inside += d.N
			}
		}
		return inside >= c.N
	})
}

// lateness returns how late a packet is that its queue pair does not wait for: later than the longest timeout of all.
func lateness(processes []sites.Process) time.Duration {
	const least, most, without = 20 * time.Millisecond, 10 * time.Second, time.Second
	longest := time.Duration(0)
	for i := range processes {
		longest = max(longest, processes[i].Timeout)
	}
	if longest == 0 {
		return without
	}
	return min(max(least, longest*3/2).Round(time.Millisecond), most)
}

// events adds the asynchronous events. They are raised at a call that posts.
func (p *plan) events(q *sites.Process) {
	count := map[string]uint64{}
	for _, c := range q.Calls {
		count[c.What] = c.N
	}
	const post = "PostSRQRecv"
	call := "PostSend"
	if count[call] == 0 {
		call = "PostRecv"
	}
	for _, rule := range []string{"qp to=ERR", "fillcq", "event PORT_ERR", "event GID_CHANGE"} {
		p.add(q.Name, count[call], rule+" nth=%d op="+call)
	}
	for _, rule := range []string{"event SRQ_LIMIT_REACHED", "event SRQ_ERR"} {
		p.add(q.Name, count[post], rule+" nth=%d op="+post)
	}
}

// has reports whether faults of a kind are tried.
func (s *Selection) has(kind string) bool {
	return len(s.Kinds) == 0 || slices.Contains(s.Kinds, kind)
}

// which returns those of count things that are to fail: the first, the last and the middle, or all; and how many these are, of which it
// returns no more than a plan holds.
func (s *Selection) which(count uint64) (all []uint64, total uint64) {
	if s.All {
		for n := uint64(1); n <= min(count, maxFaults); n++ {
			all = append(all, n)
		}
		return all, count
	}
	for _, n := range []uint64{1, count, middle(count)} {
		if n <= count && !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return all, uint64(len(all))
}

// middle returns the number of the middle one of count things.
func middle(count uint64) uint64 { return count/2 + 1 }

// errnoOf returns an error that the manual page of a call permits and programs may meet.
func errnoOf(call string) string {
	switch {
	case call == "PostSend", call == "PostRecv", call == "PostSRQRecv":
		return "ENOMEM" // the queue is full
	case strings.HasPrefix(call, "Destroy"), strings.HasPrefix(call, "Dealloc"), strings.HasPrefix(call, "Dereg"), call == "CloseXRCDomain":
		return "EBUSY"
	case strings.HasPrefix(call, "Modify"), strings.HasPrefix(call, "Query"), call == "SetSRQLimit", call == "ReqNotify",
		call == "DetachMcast", call == "AdviseMR", call == "FreeDM", call == "CMMigrate", call == "CMResolveRoute", call == "CMReject",
		call == "CMEstablish", call == "CMDisconnect", call == "CMLeaveMulticast":
		return "EINVAL"
	case call == "CMBindAddr", call == "CMListen":
		return "EADDRINUSE"
	case call == "CMResolveAddr":
		return "ENODEV"
	}
	return "ENOMEM"
}
