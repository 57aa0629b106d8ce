package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/eventlog"
	"github.com/softhca/softhca/internal/fabric/capture"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/internal/printable"
)

const (
	maxRemarks = 16 // different remarks about a queue pair, without completions with an error
	maxDrops   = 6  // of these, drops and repeats, which strangers can cause
	maxStatus  = 64 // completion statuses have smaller numbers
)

// Told is the log of an adapter about one of its queue pairs or EE contexts, or about the adapter itself.
type Told struct {
	Addr    string   `json:"addr"`                 // of the adapter
	QPN     *int     `json:"qpn,omitempty"`        // missing for the adapter itself
	EEC     bool     `json:"ee_context,omitempty"` // it is an EE context
	State   string   `json:"state,omitempty"`      // the last one
	Remarks []Remark `json:"remarks"`              // in the order of their first records
	More    int      `json:"unlisted,omitempty"`   // further remarks, not in the list
	key     toldKey
	peer    toldKey // the other end, if it is known
	by      process
	drops   int // remarks that count against maxDrops
	others  int // remarks that count against maxRemarks
}

// Remark is a line of the log, once or more.
type Remark struct {
	Event  string        `json:"event"`            // such as "request refused"
	Status string        `json:"status,omitempty"` // of a completion
	Detail string        `json:"detail,omitempty"` // of the first: the cause, or which work request
	Count  int           `json:"count"`            // how often
	First  int           `json:"first_record"`     // record in the file, from 1
	At     time.Duration `json:"at_ns"`            // of the first, since the first record of the file
	last   time.Duration // of the last
	from   string        // REMOTE of a packet that reached no queue pair
	// explains: a drop that may be why a request got no answer.
	explains bool
}

// toldKey identifies a queue pair or EE context: the address is the first one of its adapter. QPN 0 is the
// adapter itself.
type toldKey struct {
	addr netip.Addr
	qpn  ib.QPN
}

func (k toldKey) compare(o toldKey) int {
	return cmp.Or(k.addr.Compare(o.addr), cmp.Compare(k.qpn, o.qpn))
}

// process is a process with an adapter.
type process struct {
	addr netip.Addr // the first one of the adapter
	pid  int
}

// meet notes the other end of a connection, which eventlog.Connection has named. addrs are those of the
// adapter.
func (t *Told) meet(conn string, addrs []netip.Addr) {
	a, b, _ := strings.Cut(conn, "-")
	for _, text := range []string{a, b} {
		addr, qpn, _ := strings.Cut(text, "/")
		ip, err := netip.ParseAddr(addr)
		if own := slices.Contains(addrs, ip) && number(qpn) == t.key.qpn; err == nil && !own {
			t.peer = toldKey{ip, number(qpn)}
		}
	}
}

// add adds a line of the log, or counts a repetition.
func (t *Told) add(e *pcapfile.Entry, now instant) {
	r := Remark{Event: e.Get(capture.FieldMsg), Status: e.Get("STATUS"), Detail: e.Get("CAUSE"), Count: 1, First: now.record, At: now.at, last: now.at}
	switch r.Event {
	case eventlog.StateChanged:
		t.State = printable.Line(e.Get("TO"), printable.Limit)
		if t.State != ib.ERR.String() && t.State != ib.SQE.String() {
			return
		}
		r.Detail = fmt.Sprintf("%s, %s to %s", r.Detail, e.Get("FROM"), t.State)
	case eventlog.Challenge: // other lines tell the result
		return
	case eventlog.CallFailed:
		r.Detail = e.Get("CALL") + ": " + e.Get("ERR")
	case eventlog.AsyncEvent:
		r.Detail = e.Get("EVENT")
		if cq := e.Get("CQ"); cq != "" {
			r.Detail += ", CQ " + cq
		}
	case eventlog.PacketDropped:
		r.dropped(e)
	default:
		if id := e.Get("WR_ID"); id != "" && r.Status != "" {
			r.Detail = "wr_id " + id
		}
	}
	r.Event, r.Status, r.Detail = printable.Line(r.Event, printable.Limit), printable.Line(r.Status, printable.Limit), printable.Line(r.Detail, printable.Limit)
	t.put(&r)
}

// put puts a remark into the list, if there is room, or counts a repetition.
func (t *Told) put(r *Remark) {
	for i := range t.Remarks {
		// Of completions with the same status the first one is told.
		if o := &t.Remarks[i]; o.Event == r.Event && o.Status == r.Status && (r.Status != "" || o.Detail == r.Detail) {
			o.Count++
			o.last = r.last
			return
		}
	}
	switch {
	case statusOf(r.Status) != nil: // there are few
	case r.Event == eventlog.PacketDropped || r.Event == eventlog.Repeated:
		if t.drops++; t.drops > maxDrops {
			t.More++
			return
		}
	default:
		if t.others++; t.others > maxRemarks {
			t.More++
			return
		}
	}
	t.Remarks = append(t.Remarks, *r)
}

// dropped sets the detail of a drop.
func (r *Remark) dropped(e *pcapfile.Entry) {
	state := e.Get("STATE")
	r.explains = dropReasons[r.Detail] != "" && state != ib.ERR.String() && state != ib.SQE.String()
	switch r.Detail {
	case counters.DropState.String():
		if state != "" {
			r.Detail = "the queue pair is in " + state
			return
		}
	case counters.DropNoQP.String(), counters.DropNoEEC.String(), counters.DropICRC.String():
		r.from = e.Get("REMOTE")
	}
	r.Detail = cmp.Or(dropReasons[r.Detail], r.Detail)
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

// unanswered returns the first drop that may explain why the requests of a conversation got no answer: that
// of packets from one of its ends, more than once, while it went on.
func (t *Told) unanswered(c *Conversation) *Remark {
	if t == nil {
		return nil
	}
	i := slices.IndexFunc(t.Remarks, func(m Remark) bool {
		return m.explains && m.Count > 1 && m.At <= c.Start+c.Length && m.last >= c.Start && (m.from == "" || m.from == c.A.Addr || m.from == c.B.Addr)
	})
	if i < 0 {
		return nil
	}
	return &t.Remarks[i]
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

// fails are the calls whose failure is an error of the program: others may only find out what the
// adapter can do.
var fails = []string{"ibv_post_send", "ibv_post_recv", "ibv_wr_complete", "modify QP"}

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
