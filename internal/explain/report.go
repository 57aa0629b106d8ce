package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
)

// Version is the version of the JSON form of a Report. It grows when a field changes
// its meaning or is removed; new fields do not change it.
const Version = 2

// Finding is something that happened, once or more, in one conversation.
type Finding struct {
	Rule         string        `json:"rule"`                  // its name, a heading of docs/explain.md
	Severity     Severity      `json:"severity"`              // repaired, unknown, lost or failed
	Side         Side          `json:"side"`                  // where to look
	Title        string        `json:"title"`                 // the rule in words
	Conversation int           `json:"conversation"`          // ID; 0 for none
	Count        int           `json:"count"`                 // how often it happened
	First        int           `json:"first_record"`          // number in the file, from 1
	Last         int           `json:"last_record"`           // of the last
	At           time.Duration `json:"at_ns"`                 // of the first, since the first packet of the file
	Detail       string        `json:"detail"`                // of the first: which packet, and when
	Page         string        `json:"page"`                  // where the documentation describes the rule
	ErrorPages   []string      `json:"error_pages,omitempty"` // of the statuses that the programs get
	id           ruleID
	requester    Statuses      // the requester's program gets one of these
	heard, until time.Duration // time of its end's last packet, and the latest time of a next one
	refused      ruleID        // of refusalLate: what the NAK says, if it reached the requester
	refusal      string        // the detail of that
}

// Conversation describes two ends and their packets.
type Conversation struct {
	ID        int           `json:"id"`                 // from 1, in the order of the first packets
	Service   string        `json:"service"`            // RC, UC, RD, UD, XRC; CM for what connection managers say
	A         End           `json:"a"`                  // the end whose packet came first
	B         End           `json:"b"`                  // the other end
	Paired    string        `json:"paired,omitempty"`   // how the ends were found to belong together: cm, answers, addresses, datagrams, adapters
	PathMTU   int           `json:"path_mtu,omitempty"` // in bytes; missing if no packet tells it
	Packets   int           `json:"packets"`            // of both directions
	Bytes     int           `json:"payload_bytes"`      // of both directions
	First     int           `json:"first_record"`       // number of the record in the file, from 1
	Last      int           `json:"last_record"`        // likewise
	Start     time.Duration `json:"start_ns"`           // of its first packet, since the first packet of the file
	Length    time.Duration `json:"length_ns"`          // from its first packet to its last
	AToB      Requests      `json:"a_to_b"`             // requests of A
	BToA      Requests      `json:"b_to_a"`             // requests of B
	Notes     []string      `json:"notes,omitempty"`    // limits of the analysis
	ladder    []rung
	unmatched int
	doubt     time.Duration // the silence before an answer that may have been too late for its requester
	disorder  bool          // the last answers came out of order
	refuted   bool          // a requester sent nothing after an answer that refuted a NAK
	heard     bool          // the adapters say what became of it
}

// End is one end of a conversation.
type End struct {
	Addr string `json:"addr"` // its IP address
	QPN  *int   `json:"qpn"`  // of RD that of the EE context; null if no packet to it was seen
	eec  bool   // the number is that of an EE context
}

// Requests is what one side asked for.
type Requests struct {
	Messages int           `json:"messages"`   // the first 500, and up to 500 more with a problem; --html lists 5000
	Bytes    int           `json:"bytes"`      // of these messages
	Mean     time.Duration `json:"mean_ns"`    // from the first packet to the answer; 0 where nothing answers
	Longest  time.Duration `json:"longest_ns"` // likewise
	Answers  int           `json:"answers"`    // packets that answer this side
}

// Report is what was found in all packets.
type Report struct {
	Version       int            `json:"version"`            // version of this format; it grows when a field changes its meaning or is removed
	Verdict       Verdict        `json:"verdict"`            // the overall result
	Conversations []Conversation `json:"conversations"`      // the first 256, and further ones with findings, at most 4096
	Findings      []*Finding     `json:"findings"`           // the most severe first; empty for a clean capture
	Messages      []Message      `json:"messages"`           // the first 500, and as many more with which something was wrong; --html lists 5000
	Records       int            `json:"records"`            // of the file, of any kind
	Packets       int            `json:"packets"`            // to UDP port 4791
	BadICRC       int            `json:"bad_icrc"`           // packets with a wrong ICRC
	Malformed     int            `json:"malformed"`          // malformed packets
	Truncated     int            `json:"truncated"`          // cut off by the capture; their headers were followed
	Twice         int            `json:"captured_twice"`     // incoming copies of packets that were captured when they left
	Tally         Tally          `json:"tally"`              // number of conversations by outcome, and the first failure
	Ended         int            `json:"ended_early"`        // conversations that were not followed to the end, because too many were open
	Unlisted      int            `json:"unlisted"`           // further conversations, not in the list
	Told          []Told         `json:"adapters,omitempty"` // what adapters of softhca say about themselves, 4096 queue pairs at most
	Clocks        []Clock        `json:"clocks,omitempty"`   // of several captures: how they differ from that of the first; missing if they agree
	// Kept are the packets that the report keeps, Config.Packets at most.
	Kept             []Packet      `json:"-"`
	UnlistedMessages int           `json:"unlisted_messages"` // further ones, not in the list
	Start            time.Time     `json:"start"`             // of the first packet
	Duration         time.Duration `json:"duration_ns"`       // from the first packet to the last
	kept             int
	asked            string        // the first fault that a rule made
	listened         time.Duration // the time up to which the capture ran
}

// Tally counts conversations by the gravest that was found in them.
type Tally struct {
	Conversations int `json:"conversations"`                  // in all, listed or not
	Clean         int `json:"clean"`                          // nothing was found
	Repaired      int `json:"repaired"`                       // something cost time only, or had no effect
	Unknown       int `json:"unknown"`                        // the capture does not show the outcome
	Lost          int `json:"lost"`                           // a message is gone
	Failed        int `json:"failed"`                         // a program saw an error
	FirstFailure  int `json:"first_failure_record,omitempty"` // record of the first failure or lost message; missing if there is none
}

// count counts a conversation by its gravest finding.
func (t *Tally) count(fs []*Finding) {
	t.Conversations++
	if len(fs) == 0 {
		t.Clean++
		return
	}
	worst := slices.MaxFunc(fs, func(a, b *Finding) int { return cmp.Compare(a.Severity, b.Severity) })
	*[...]*int{Repaired: &t.Repaired, Unknown: &t.Unknown, Lost: &t.Lost, Failed: &t.Failed}[worst.Severity]++
}

// finding returns the finding of a rule, or nil if there is none.
func (c *conversation) finding(id ruleID) *Finding {
	for _, f := range c.findings {
		if f.id == id {
			return f
		}
	}
	return nil
}

// find adds a finding to the conversation, or counts a repetition.
func (c *conversation) find(now instant, id ruleID, format string, args ...any) {
	c.latest.rule, c.latest.in = &table[id], now
	if f := c.finding(id); f != nil {
		f.Count++
		f.Last = max(f.Last, now.record)
		return
	}
	c.findings = append(c.findings, newFinding(c.id, now, id, fmt.Sprintf(format, args...)))
	c.ladder.keep(table[id].Severity)
}

// newFinding returns a finding with count 1.
func newFinding(conversation int, now instant, id ruleID, detail string) *Finding {
	r := &table[id]
	return &Finding{
		Rule: r.Name, Severity: r.Severity, Side: r.Side, Title: r.Title, Conversation: conversation, Count: 1,
		First: now.record, Last: now.record, At: now.at, Detail: detail, Page: r.Page(), ErrorPages: r.ErrorPages(), id: id, requester: r.Requester,
	}
}

// began sets the beginning of a finding.
func (c *conversation) began(id ruleID, in instant) {
	f := c.finding(id)
	f.First, f.At = in.record, in.at
}

// onPage sets the documentation page of the code behind a finding.
func (c *conversation) onPage(id ruleID, page string) {
	if f := c.finding(id); len(f.ErrorPages) == 0 {
		f.ErrorPages = []string{page}
	}
}

// awaits marks a finding as a conclusion from silence: heard is the time of the end's last
// packet, grace the silence after which it could still have continued.
func (c *conversation) awaits(id ruleID, heard, grace time.Duration) {
	if f := c.finding(id); f != nil {
		f.heard, f.until = heard, heard+grace
	}
}

// retract removes the last occurrence of a finding.
func (c *conversation) retract(id ruleID) {
	if f := c.finding(id); f != nil {
		f.Count--
		c.findings = slices.DeleteFunc(c.findings, func(f *Finding) bool { return f.Count == 0 })
	}
}

// times returns how often a finding occurred.
func (c *conversation) times(id ruleID) int {
	if f := c.finding(id); f != nil {
		return f.Count
	}
	return 0
}

// note adds a note to the conversation.
func (c *conversation) note(s string) { c.notes = append(c.notes, s) }

// defaultListed is the maximum number of listed conversations without findings.
const defaultListed = 256

// problem reports whether a finding is more than a gap of the capture.
func (f *Finding) problem() bool { return f.Severity != Unknown }

// add adds an ended conversation.
func (r *Report) add(c *conversation) {
	for _, f := range c.findings {
		f.Conversation = c.id
	}
	if c.packets == 0 {
		r.Findings = append(r.Findings, c.findings...)
		return
	}
	r.Tally.count(c.findings)
	if !slices.ContainsFunc(c.findings, (*Finding).problem) && r.kept >= defaultListed || r.kept >= defaultKept {
		r.Unlisted++
		if len(c.findings) > 0 {
			r.merge(c.findings)
		}
		return
	}
	r.kept++
	r.Findings = append(r.Findings, c.findings...)
	r.Conversations = append(r.Conversations, c.summary())
}

// merge adds the findings of an unlisted conversation to the counts of listed
// findings.
func (r *Report) merge(fs []*Finding) {
	for _, f := range fs {
		i := slices.IndexFunc(r.Findings, func(g *Finding) bool { return f.id == g.id })
		if i < 0 {
			f.Conversation = 0
			r.Findings = append(r.Findings, f)
			continue
		}
		r.Findings[i].Count += f.Count
	}
}

// addLink adds the exchange of two connection managers.
func (r *Report) addLink(l *link) {
	before := len(r.Conversations)
	r.add(&l.log)
	if len(r.Conversations) > before {
		c := &r.Conversations[before]
		c.Service, c.A.QPN, c.B.QPN = "CM", nil, nil
		c.Notes = append(c.Notes, "a connection to "+l.service)
		if l.key.sidr {
			c.Notes[len(c.Notes)-1] = "a look-up of " + l.service
		}
	}
}

// summary returns the report of a conversation.
func (c *conversation) summary() Conversation {
	s := Conversation{
		ID: c.id, Service: c.service.String(), A: c.endOf(0), B: c.endOf(1), Paired: c.paired, PathMTU: c.mtu,
		Packets: c.packets, Bytes: c.bytes, First: c.first.record, Last: c.last.record,
		Start: c.first.at, Length: c.last.since(c.first), AToB: c.requests(0), BToA: c.requests(1), Notes: c.notes,
		ladder: c.ladder.rungs(),
	}
	switch c.service {
	case roce.ServiceRC, roce.ServiceXRC, roce.ServiceRD:
		for side := range c.halves {
			h := &c.halves[side]
			s.unmatched += h.beyond + h.skipped
			s.refuted = s.refuted || h.refuted.on
			if !h.doubt.strong && !h.late.on {
				s.doubt, s.disorder = max(s.doubt, h.doubt.quiet), s.disorder || h.doubt.order
			}
		}
	}
	if s.unmatched > 0 {
		s.Notes = append(s.Notes, count(s.unmatched, "answer")+" to requests that were not seen: the capture missed packets, or began in the middle")
	}
	return s
}

// endOf returns an end for the report.
func (c *conversation) endOf(side int) End {
	e := c.ends[side]
	t := End{Addr: e.addr.String(), eec: c.service == roce.ServiceRD}
	if e.qpn != noQPN {
		t.QPN = new(int(e.qpn & ib.QPNMask))
	}
	return t
}

// requests returns the statistics of the requests of a side.
func (c *conversation) requests(side int) Requests {
	t := c.halves[side].done
	if c.streams[side].seen {
		t = c.streams[side].done
	}
	r := Requests{Messages: t.messages, Bytes: t.bytes, Longest: t.longest, Answers: c.halves[side].answers}
	if t.messages > 0 {
		r.Mean = t.total / time.Duration(t.messages)
	}
	return r
}

// conclude sorts the findings and sets the verdict.
func (f *Follower) conclude() {
	r := &f.report
	r.Version = Version
	if r.Findings == nil {
		r.Findings = []*Finding{}
	}
	if r.Conversations == nil {
		r.Conversations = []Conversation{}
	}
	f.inside.conclude(r)
	slices.SortFunc(r.Conversations, func(a, b Conversation) int { return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.ID, b.ID)) })
	slices.SortStableFunc(r.Findings, func(a, b *Finding) int {
		return cmp.Or(-cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.First, b.First), cmp.Compare(a.id, b.id))
	})
	number := r.number()
	r.listMessages(&f.messages, number)
	r.Kept = f.kept.finish(number)
	for _, found := range r.Findings {
		if found.Severity >= Lost && (r.Tally.FirstFailure == 0 || found.First < r.Tally.FirstFailure) {
			r.Tally.FirstFailure = found.First
		}
	}
	r.Verdict = r.judge()
	if c := r.conversationOf(r.Verdict.found); c != nil {
		r.Verdict.Reason, r.Verdict.Programs = f.inside.reasons(r.Verdict.found, c)
	}
}

// number numbers the conversations in the order of their first packets, and returns
// a map from old numbers to new ones.
func (r *Report) number() map[int]int {
	to := map[int]int{}
	for i := range r.Conversations {
		to[r.Conversations[i].ID] = i + 1
		r.Conversations[i].ID = i + 1
	}
	for _, f := range r.Findings {
		f.Conversation = to[f.Conversation]
	}
	return to
}
