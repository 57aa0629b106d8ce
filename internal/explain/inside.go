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
	"github.com/softhca/softhca/internal/eventlog"
	"github.com/softhca/softhca/internal/fabric/capture"
	"github.com/softhca/softhca/internal/pcapfile"
)

// The logs of adapters of softhca, which are between the packets of their captures, tell what no packet shows:
// the statuses that the programs got, why exactly a request was refused, why a packet was dropped, and errors
// that sent no packet at all.

const (
	maxTold   = 4096 // queue pairs in logs, and processes and addresses of adapters
	maxStrays = 256  // queue pairs that do not exist, and to which packets came
)

// inside collects the logs.
type inside struct {
	all    map[toldKey]*Told
	strays map[toldKey]*Told         // of queue pairs that do not exist
	first  map[netip.Addr]netip.Addr // of the adapter with an address, its first address
	gone   map[process]instant       // when a process closed its adapter, or ended
}

// hear takes a line of an adapter's log. start is the time of the first record, which is that of the line if
// it is zero.
func (n *inside) hear(e *pcapfile.Entry, start *time.Time) {
	addrs := adapterAddrs(e.Get(capture.FieldAdapter))
	if len(addrs) == 0 {
		return
	}
	if start.IsZero() {
		*start = e.Time
	}
	for _, a := range addrs {
		remember(&n.first, maxTold, a, addrs[0])
	}
	pid, _ := strconv.Atoi(e.Get(capture.FieldPID)) // 0 if it is no number
	now, by := instant{e.Record, e.Time.Sub(*start)}, process{addrs[0], pid}
	if e.Get(capture.FieldMsg) == capture.Gone {
		remember(&n.gone, maxTold, by, now)
		return
	}
	stray := e.Get(capture.FieldMsg) == eventlog.PacketDropped && e.Get("REMOTE") != ""
	t := n.about(toldKey{addrs[0], number(e.Get("QP"), e.Get("EEC"))}, stray)
	if t == nil {
		return
	}
	t.EEC, t.by = e.Get("EEC") != "", by
	t.meet(e.Get("CONN"), addrs)
	t.add(e, now)
}

// adapterAddrs returns the addresses of an adapter, which commas separate.
func adapterAddrs(text string) (addrs []netip.Addr) {
	for part := range strings.SplitSeq(text, ",") {
		// A zone could be any text.
		if a, err := netip.ParseAddr(part); err == nil && a.Zone() == "" && len(addrs) < maxAddrs {
			addrs = append(addrs, a)
		}
	}
	return addrs
}

// about returns the log about a queue pair, nil if there are too many. Queue pairs that do not exist (stray)
// have a table of their own: anyone can send packets to them, and must not fill the other table.
func (n *inside) about(key toldKey, stray bool) *Told {
	if t := cmp.Or(n.all[key], n.strays[key]); t != nil && (stray || n.all[key] != nil) {
		return t
	}
	t, table, limit := &Told{Addr: key.addr.String(), Remarks: []Remark{}, key: key}, &n.all, maxTold
	if stray {
		table, limit = &n.strays, maxStrays
	}
	if len(*table) >= limit {
		return nil
	}
	if key.qpn != 0 {
		t.QPN = new(int(key.qpn))
	}
	remember(table, limit, key, t)
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

// keyOf returns the key of an end, and whether it has one.
func (n *inside) keyOf(e *End) (key toldKey, ok bool) {
	addr, err := netip.ParseAddr(e.Addr)
	if err != nil || e.QPN == nil {
		return key, false
	}
	return toldKey{cmp.Or(n.first[addr], addr), ib.QPN(*e.QPN)}, true
}

// at returns the log about an end, nil if there is none.
func (n *inside) at(e *End) *Told {
	key, ok := n.keyOf(e)
	if !ok {
		return nil
	}
	return cmp.Or(n.all[key], n.strays[key])
}

// conclude adds the findings that no packet shows, before the findings are sorted.
func (n *inside) conclude(r *Report) {
	if len(n.all) == 0 && len(n.strays) == 0 {
		return
	}
	n.pairUp(r)
	of := make(map[*Told]*Conversation)
	for i := range r.Conversations {
		c := &r.Conversations[i]
		if c.Service == "CM" {
			continue
		}
		a, b := n.at(&c.A), n.at(&c.B)
		c.heard = cmp.Or(a.find(failures...), b.find(failures...)) != nil
		for _, t := range []*Told{a, b} {
			if t != nil && of[t] == nil {
				of[t] = c
			}
		}
	}
	n.settle(r, of)
	failed := make(map[int]bool) // conversations with findings that packets show
	for _, f := range r.Findings {
		failed[f.Conversation] = failed[f.Conversation] || f.Severity == Failed
	}
	for _, key := range slices.SortedFunc(maps.Keys(n.all), toldKey.compare) {
		t := n.all[key]
		r.addTold(t, of[t], failed)
	}
	for _, key := range slices.SortedFunc(maps.Keys(n.strays), toldKey.compare) {
		if t := n.strays[key]; of[t] != nil {
			r.addTold(t, of[t], failed)
		}
	}
}

// settle replaces findings that leave open what the requester's program got, where the adapter's log tells it: a
// NAK that may have come too late, and RNR NAKs that may have been lost.
func (n *inside) settle(r *Report, of map[*Told]*Conversation) {
	got := make(map[int][]string) // statuses, by conversation
	for t, c := range of {
		for _, m := range t.Remarks {
			if m.Status != "" {
				got[c.ID] = append(got[c.ID], m.Status)
			}
		}
	}
	for i, f := range r.Findings {
		id, detail := f.refused, f.refusal
		if f.id == rnrOrSilence {
			id, detail = rnrUnresolved, f.Detail
		} else if f.id != refusalLate {
			continue
		}
		if !slices.ContainsFunc(table[id].Requester, func(s ib.WCStatus) bool { return slices.Contains(got[f.Conversation], s.String()) }) {
			continue
		}
		r.Findings[i] = newFinding(f.Conversation, instant{f.First, f.At}, id, detail)
		r.Findings[i].Count, r.Findings[i].Last = f.Count, f.Last
	}
}

// pairUp sets the ends of conversations that only the logs tell: of which queue pair an end is the peer.
func (n *inside) pairUp(r *Report) {
	towards := make(map[[2]toldKey]*Told) // by the address of a queue pair, and its peer; nil if there are several
	for _, t := range n.all {
		key := [2]toldKey{{addr: t.key.addr}, t.peer}
		if _, several := towards[key]; several {
			t = nil
		}
		towards[key] = t
	}
	paired := make(map[int]bool)
	for i := range r.Conversations {
		c := &r.Conversations[i]
		for _, ends := range [][2]*End{{&c.A, &c.B}, {&c.B, &c.A}} {
			own, far := ends[0], ends[1]
			a, errA := netip.ParseAddr(own.Addr)
			b, errB := netip.ParseAddr(far.Addr)
			if own.QPN != nil || far.QPN == nil || c.Service == "CM" || errA != nil || errB != nil {
				continue
			}
			if t := towards[[2]toldKey{{addr: cmp.Or(n.first[a], a)}, {b, ib.QPN(*far.QPN)}}]; t != nil {
				own.QPN, c.Paired = t.QPN, byAdapters
				paired[c.ID] = true
			}
		}
	}
	r.Findings = slices.DeleteFunc(r.Findings, func(f *Finding) bool { return paired[f.Conversation] && f.id == oneDirection })
}

// addTold adds the log about a queue pair, and findings for its errors that packets do not show. c is its
// conversation, nil if it has none.
func (r *Report) addTold(t *Told, c *Conversation, failed map[int]bool) {
	of := 0
	if c != nil {
		of = c.ID
	}
	for i := range t.Remarks {
		m := &t.Remarks[i]
		id, ok := t.rule(m)
		if !ok || id == completionError && of != 0 && failed[of] {
			continue
		}
		detail := t.name() + ": " + m.text()
		if why := t.find(eventlog.MemoryError); why != nil && id == completionError {
			detail += "; " + why.Detail
		}
		f := newFinding(of, instant{m.First, m.At}, id, detail)
		f.Count, f.ErrorPages = m.Count, statusOf(m.Status).pages()
		r.Findings = append(r.Findings, f)
	}
	if len(t.Remarks) > 0 {
		r.Told = append(r.Told, *t)
	}
}

// withoutAnswer are the rules for which a drop, or the end of a process, may be the reason.
var withoutAnswer = []ruleID{noAnswer, wentSilent, answersIgnored, answersDoubtful, unfinished, oneDirection, nothingAnswers, rnrOrSilence}

// reasons returns what the adapters of a conversation say about a finding: why a request was refused
// or got no answer, and which statuses the programs got.
func (n *inside) reasons(f *Finding, c *Conversation) (why string, got []string) {
	ends := []*Told{n.at(&c.A), n.at(&c.B)}
	for _, t := range ends {
		if m := t.find(eventlog.RequestRefused, eventlog.MemoryError); m != nil && why == "" {
			why = t.name() + ": " + m.text()
		}
	}
	if slices.Contains(withoutAnswer, f.id) {
		for _, t := range ends {
			why = cmp.Or(why, n.left(t, c))
		}
		for _, t := range ends {
			if m := t.unanswered(c); m != nil && why == "" {
				why = t.name() + ": " + m.text()
			}
		}
	}
	for _, t := range ends {
		if m := t.find(failures...); m != nil {
			got = append(got, t.name()+": "+cmp.Or(statusOf(m.Status).String(), m.Status)+", "+m.Detail)
		}
	}
	return why, got
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
	return fmt.Sprintf("%s: process %d ended, or closed the adapter, at %v, before the last packet", t.name(), t.by.pid, round(in.at))
}

// Statuses returns the names of the completion statuses that programs got, sorted. They come from the logs of
// adapters; for conversations without a status in a log, from findings that have only one possible status.
func (r *Report) Statuses() (names []string) {
	for i := range r.Told {
		for _, m := range r.Told[i].Remarks {
			if m.Status != "" {
				names = append(names, m.Status)
			}
		}
	}
	for _, f := range r.Findings {
		if c := r.conversationOf(f); f.Severity != Failed || c != nil && c.heard {
			continue
		}
		for _, s := range []Statuses{f.requester, table[f.id].Responder} {
			if len(s) == 1 { // of several, the packets do not show which
				names = append(names, s[0].String())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
