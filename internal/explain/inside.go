package explain

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/eventlog"
	"github.com/softhca/softhca/internal/fabric/capture"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/internal/printable"
)

// What adapters of softhca write about themselves between the packets of a capture (the lines of their
// logs) tells what no packet shows: the statuses that the programs got, why exactly a request was
// refused, why a packet was dropped, and errors that sent no packet at all.

const (
	maxTold    = 4096 // queue pairs whose adapters say something
	maxRemarks = 16   // different remarks about one of them
	maxStatus  = 64   // completion statuses have smaller numbers
)

// Told is what an adapter says about one of its queue pairs or EE contexts, or about itself.
type Told struct {
	Addr    string   `json:"addr"`                 // of the adapter
	QPN     *int     `json:"qpn,omitempty"`        // missing for what is about no queue pair
	EEC     bool     `json:"ee_context,omitempty"` // it is an EE context
	State   string   `json:"state,omitempty"`      // the last one
	Remarks []Remark `json:"remarks"`              // in the order of their first records, 16 at most
	More    int      `json:"unlisted,omitempty"`   // further remarks, not in the list
	key     toldKey
	peer    toldKey // the other end, if it is known
	by      process
}

// process is a process with an adapter.
type process struct {
	addr netip.Addr // the first one of the adapter
	pid  string
}

// Remark is something that an adapter says, once or more.
type Remark struct {
	Event  string        `json:"event"`            // such as "request refused"
	Status string        `json:"status,omitempty"` // of a completion
	Detail string        `json:"detail,omitempty"` // of the first: the cause, or which work request
	State  string        `json:"state,omitempty"`  // of the queue pair then, if the adapter has told it
	Count  int           `json:"count"`            // how often
	First  int           `json:"first_record"`     // record in the file, from 1
	At     time.Duration `json:"at_ns"`            // of the first, since the first record of the file
	// explains: it may be why a request got no answer.
	explains bool
}

// toldKey identifies a queue pair or EE context: the address is the first one of its adapter. QPN 0 is the
// adapter itself.
type toldKey struct {
	addr netip.Addr
	qpn  ib.QPN
}

// inside collects what adapters say.
type inside struct {
	all  map[toldKey]*Told
	of   map[netip.Addr]netip.Addr // the first address of the adapter with an address
	gone map[process]instant       // processes that said goodbye, or ended without
}

// hear takes an entry of an adapter's log. start is the time of the first record, which is that of the entry
// if it is zero.
func (n *inside) hear(e *pcapfile.Entry, start *time.Time) {
	var addrs []netip.Addr
	for text := range strings.SplitSeq(e.Get(capture.FieldAdapter), ",") {
		if a, err := netip.ParseAddr(text); err == nil {
			addrs = append(addrs, a)
		}
	}
	if len(addrs) == 0 {
		return
	}
	if start.IsZero() {
		*start = e.Time
	}
	for _, a := range addrs[:min(len(addrs), maxAddrs)] {
		remember(&n.of, maxAddrs, a, addrs[0])
	}
	now, by := instant{e.Record, e.Time.Sub(*start)}, process{addrs[0], e.Get(capture.FieldPID)}
	if e.Get(capture.FieldMsg) == capture.Gone {
		remember(&n.gone, maxTold, by, now)
		return
	}
	t := n.about(toldKey{addrs[0], number(e.Get("QP"), e.Get("EEC"))})
	if t == nil {
		return
	}
	t.EEC, t.by = e.Get("EEC") != "", by
	t.meet(e.Get("CONN"))
	t.add(e, now)
}

// about returns what an adapter says about a queue pair, nil if too many are known.
func (n *inside) about(key toldKey) *Told {
	t := n.all[key]
	if t == nil && len(n.all) >= maxTold {
		return nil
	}
	if t == nil {
		t = &Told{Addr: key.addr.String(), Remarks: []Remark{}, key: key}
		if key.qpn != 0 {
			t.QPN = new(int(key.qpn))
		}
		remember(&n.all, maxTold, key, t)
	}
	return t
}

// number returns the number of a queue pair or EE context, 0 if there is none.
func number(texts ...string) ib.QPN {
	n, err := strconv.ParseUint(cmp.Or(texts...), 0, 24)
	if err != nil {
		return 0
	}
	return ib.QPN(n)
}

// meet notes the other end of a connection, which eventlog.Connection has named.
func (t *Told) meet(conn string) {
	a, b, _ := strings.Cut(conn, "-")
	for _, text := range []string{a, b} {
		addr, qpn, _ := strings.Cut(text, "/")
		if ip, err := netip.ParseAddr(addr); err == nil && number(qpn) != t.key.qpn || err == nil && ip != t.key.addr {
			t.peer = toldKey{ip, number(qpn)}
		}
	}
}

// add adds an entry as a remark, or counts a repetition.
func (t *Told) add(e *pcapfile.Entry, now instant) {
	r := Remark{
		Event: e.Get(capture.FieldMsg), Status: e.Get("STATUS"), Detail: e.Get("CAUSE"), State: t.State,
		Count: 1, First: now.record, At: now.at,
	}
	switch r.Event {
	case eventlog.StateChanged:
		t.State = printable.Line(e.Get("TO"), printable.Limit)
		if t.State != ib.ERR.String() && t.State != ib.SQE.String() {
			return
		}
		r.Detail = fmt.Sprintf("%s, %s to %s", r.Detail, e.Get("FROM"), t.State)
	case eventlog.Challenge: // what came of it is told, too
		return
	case eventlog.CallFailed:
		r.Detail = e.Get("CALL") + ": " + e.Get("ERR")
	case eventlog.AsyncEvent:
		r.Detail = e.Get("EVENT")
		if cq := e.Get("CQ"); cq != "" {
			r.Detail += ", CQ " + cq
		}
	case eventlog.PacketDropped:
		r.explains = dropReasons[r.Detail] != "" && r.State != ib.ERR.String() && r.State != ib.SQE.String()
		if r.Detail == counters.DropState.String() && r.State != "" {
			r.Detail = "the queue pair is in " + r.State
		}
		r.Detail = cmp.Or(dropReasons[r.Detail], r.Detail)
	default:
		if id := e.Get("WR_ID"); id != "" && r.Status != "" {
			r.Detail = "wr_id " + id
		}
	}
	r.Event, r.Status, r.Detail = printable.Line(r.Event, printable.Limit), printable.Line(r.Status, printable.Limit), printable.Line(r.Detail, printable.Limit)
	for i := range t.Remarks {
		// Of completions with the same status the first one is told.
		if o := &t.Remarks[i]; o.Event == r.Event && o.Status == r.Status && (r.Status != "" || o.Detail == r.Detail) {
			o.Count++
			return
		}
	}
	if len(t.Remarks) >= maxRemarks {
		t.More++
		return
	}
	t.Remarks = append(t.Remarks, r)
}

// dropReasons are the reasons of drops, in words, by the names of their counters. Others, such as those of
// duplicates, explain no failure.
var dropReasons = map[string]string{
	counters.DropNoQP.String(): "the adapter has no such queue pair", counters.DropNoEEC.String(): "the adapter has no such EE context",
	counters.DropState.String(): "the state of the queue pair does not take it", counters.DropAddress.String(): "it does not come from the address of the peer",
	counters.DropICRC.String(): "its ICRC is wrong", counters.DropPKey.String(): "its P_Key is not that of the queue pair",
	counters.DropQKey.String(): "its Q_Key is not that of the queue pair", counters.DropNoWQE.String(): "no receive is posted",
	counters.DropLength.String(): "it does not fit into the receive", counters.DropAccess.String(): "its key does not allow it",
	counters.DropService.String(): "its transport service is not that of the queue pair", counters.DropOpcode.String(): "the queue pair does not support the operation",
}

// canonical returns the first address of the adapter with an address.
func (n *inside) canonical(a netip.Addr) netip.Addr {
	if first, ok := n.of[a]; ok {
		return first
	}
	return a
}

// at returns what the adapter of an end says about it, nil for nothing.
func (n *inside) at(e *End) *Told {
	addr, err := netip.ParseAddr(e.Addr)
	if err != nil || e.QPN == nil {
		return nil
	}
	return n.all[toldKey{n.canonical(addr), ib.QPN(*e.QPN)}]
}

// failures are the messages about completions with an error.
var failures = []string{eventlog.RetriesExhausted, eventlog.CompletionError}

// find returns the first remark with one of the messages, in the order of the messages.
func (t *Told) find(messages ...string) *Remark {
	if t == nil {
		return nil
	}
	for _, m := range messages {
		for i := range t.Remarks {
			if t.Remarks[i].Event == m {
				return &t.Remarks[i]
			}
		}
	}
	return nil
}

// fails are the calls whose failure is an error of the program: others may only find out what the
// adapter can do.
var fails = []string{"ibv_post_send", "ibv_post_recv", "ibv_wr_complete", "modify QP"}

// conclude adds the findings that no packet shows, before the findings are sorted.
func (n *inside) conclude(r *Report) {
	for i := range r.Conversations {
		n.complete(r, &r.Conversations[i])
	}
	for _, key := range slices.SortedFunc(maps.Keys(n.all), toldKey.compare) {
		t := n.all[key]
		c := n.conversation(r, t)
		for i := range t.Remarks {
			m := &t.Remarks[i]
			if id, ok := t.rule(m); ok && !r.shows(c, id) {
				r.addTold(c, id, t, m)
			}
		}
		if len(t.Remarks) > 0 {
			r.Told = append(r.Told, *t)
		}
	}
}

func (k toldKey) compare(o toldKey) int {
	return cmp.Or(k.addr.Compare(o.addr), cmp.Compare(k.qpn, o.qpn))
}

// complete sets what an adapter says about the ends of a conversation: whose they are.
func (n *inside) complete(r *Report, c *Conversation) {
	for _, ends := range [][2]*End{{&c.A, &c.B}, {&c.B, &c.A}} {
		own, far := ends[0], ends[1]
		if own.QPN != nil || far.QPN == nil || c.Service == "CM" {
			continue
		}
		if t := n.towards(own, far); t != nil {
			own.QPN, c.Paired = t.QPN, byAdapters
			r.Findings = slices.DeleteFunc(r.Findings, func(f *Finding) bool { return f.Conversation == c.ID && f.id == oneDirection })
		}
	}
	a, b := n.at(&c.A), n.at(&c.B)
	all := n.hears(&c.A) && n.hears(&c.B) && (a != nil || b != nil)
	c.heard = all || cmp.Or(a.find(failures...), b.find(failures...)) != nil
}

// hears reports whether the adapter of an end is one of those that say something.
func (n *inside) hears(e *End) bool {
	a, err := netip.ParseAddr(e.Addr)
	_, ok := n.of[a]
	return ok && err == nil
}

// towards returns the only queue pair at the address of an end whose peer is another end, nil if there is
// none, or there are several.
func (n *inside) towards(own, far *End) (found *Told) {
	a, errA := netip.ParseAddr(own.Addr)
	b, errB := netip.ParseAddr(far.Addr)
	if errA != nil || errB != nil {
		return nil
	}
	for _, t := range n.all {
		if t.key.addr == n.canonical(a) && t.peer == (toldKey{b, ib.QPN(*far.QPN)}) {
			if found != nil {
				return nil
			}
			found = t
		}
	}
	return found
}

// rule returns the rule for a remark, if it has one.
func (t *Told) rule(m *Remark) (id ruleID, ok bool) {
	switch m.Event {
	case eventlog.RetriesExhausted, eventlog.CompletionError:
		return completionError, true
	case eventlog.CallFailed:
		call, _, _ := strings.Cut(m.Detail, ":")
		return callFailed, slices.Contains(fails, call)
	case eventlog.AsyncEvent:
		return cqOverrun, strings.HasPrefix(m.Detail, ib.EventCQErr.String())
	}
	return 0, false
}

// conversation returns the conversation of a queue pair, nil if none of its packets is there.
func (n *inside) conversation(r *Report, t *Told) *Conversation {
	for i := range r.Conversations {
		if c := &r.Conversations[i]; c.Service != "CM" && (n.at(&c.A) == t || n.at(&c.B) == t) {
			return c
		}
	}
	return nil
}

// shows reports whether packets show the error of a conversation, so that it needs no finding of its own.
func (r *Report) shows(c *Conversation, id ruleID) bool {
	return id == completionError && c != nil && slices.ContainsFunc(r.Findings, func(f *Finding) bool {
		return f.Conversation == c.ID && f.Severity == Failed && f.id != callFailed
	})
}

// addTold adds a finding that an adapter tells.
func (r *Report) addTold(c *Conversation, id ruleID, t *Told, m *Remark) {
	of := 0
	if c != nil {
		of = c.ID
	}
	detail := t.name() + ": " + m.text()
	if why := t.find(eventlog.MemoryError); why != nil && id == completionError {
		detail += "; " + why.Detail
	}
	f := newFinding(of, instant{m.First, m.At}, id, detail)
	f.Count = m.Count
	f.ErrorPages = statusOf(m.Status).pages()
	r.Findings = append(r.Findings, f)
}

// statusOf returns the status with a name, none if there is none.
func statusOf(name string) Statuses {
	for s := range ib.WCStatus(maxStatus) {
		if s != ib.WCSuccess && s.String() == name {
			return Statuses{s}
		}
	}
	return nil
}

// name names the queue pair.
func (t *Told) name() string {
	switch {
	case t.QPN == nil:
		return "adapter " + t.Addr
	case t.EEC:
		return fmt.Sprintf("%s EEC %#06x", t.Addr, *t.QPN)
	default:
		return fmt.Sprintf("%s QP %#06x", t.Addr, *t.QPN)
	}
}

// text returns a remark in words.
func (m *Remark) text() string {
	s := m.Event
	if m.Status != "" {
		s += " " + m.Status
	}
	if m.Detail != "" {
		s += ": " + m.Detail
	}
	return s
}

// reasons returns what the adapters of a conversation say about its failure: why a request was refused
// or a packet dropped, and what the programs saw.
func (n *inside) reasons(c *Conversation) (why string, saw []string) {
	ends := []*Told{n.at(&c.A), n.at(&c.B)}
	for _, t := range ends {
		if m := t.find(eventlog.RequestRefused, eventlog.MemoryError); m != nil && why == "" {
			why = t.name() + ": " + m.text()
		}
	}
	for _, t := range ends {
		if m := t.dropped(); m != nil && why == "" {
			why = t.name() + ": " + m.text()
		}
	}
	for _, t := range ends {
		why = cmp.Or(why, n.left(t, c))
	}
	for _, t := range ends {
		if m := t.find(failures...); m != nil {
			saw = append(saw, t.name()+": "+cmp.Or(statusOf(m.Status).String(), m.Status)+", "+m.Detail)
		}
	}
	return why, saw
}

// dropped returns the first drop that may explain a failure, which is not an effect of an earlier error.
func (t *Told) dropped() *Remark {
	if t == nil {
		return nil
	}
	if i := slices.IndexFunc(t.Remarks, func(m Remark) bool { return m.explains }); i >= 0 {
		return &t.Remarks[i]
	}
	return nil
}

// left says that the process of a queue pair had ended, or closed its adapter, before the last packet of
// the conversation; it is empty otherwise.
func (n *inside) left(t *Told, c *Conversation) string {
	if t == nil {
		return ""
	}
	in, ok := n.gone[t.by]
	if !ok || in.at >= c.Start+c.Length {
		return ""
	}
	return fmt.Sprintf("%s: process %s ended, or closed the adapter, at %v, before the last packet", t.name(), t.by.pid, round(in.at))
}
