package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/softhca/softhca/roce"
)

// Message is one request of a program, as its packets tell.
type Message struct {
	Conversation int           `json:"conversation"`   // ID
	From         string        `json:"from"`           // a or b: the requester
	Operation    string        `json:"operation"`      // SEND, WRITE, READ, COMPARE_SWAP, FETCH_ADD, FLUSH, ATOMIC_WRITE
	Bytes        int           `json:"bytes"`          // for SENDs, only captured bytes
	VA           string        `json:"va,omitempty"`   // in hexadecimal; of SENDs there is none
	RKey         *uint32       `json:"rkey,omitempty"` // of the memory at the responder; of SENDs there is none
	PSN          int           `json:"psn"`            // the first
	Packets      int           `json:"packets"`        // PSNs that it takes
	Record       int           `json:"first_record"`   // number in the file, from 1
	At           time.Duration `json:"at_ns"`          // of the first packet
	Outcome      string        `json:"outcome"`        // completed, refused or unanswered; where nothing answers sent or incomplete
	Took         time.Duration `json:"took_ns"`        // to the answer that ended it; 0 if none did
	Again        int           `json:"packets_again"`  // that came more than once before it ended
}

// The outcomes of a message.
const (
	completed  = "completed"  // by an answer
	refused    = "refused"    // by a NAK
	unanswered = "unanswered" // no answer in the capture
	unheard    = "sent"       // its service has no answers
	incomplete = "incomplete" // its service has no answers, and a part of it is missing in the capture
)

// messages lists the first messages, and those of the later ones that had a
// problem.
type messages struct {
	list  []Message
	room  int // maximum number of first messages, and of later ones
	notes int // later messages in list
	more  int // messages not listed
}

// take counts a message, and reports whether there is room for it. A plain message
// had no problem.
func (l *messages) take(plain bool) bool {
	switch {
	case len(l.list)-l.notes < l.room:
	case !plain && l.notes < l.room:
		l.notes++
	default:
		l.more++
		return false
	}
	return true
}

// giveUp adds the open messages of a side to the list.
func (c *conversation) giveUp(f *Follower, side int) {
	h := &c.halves[side]
	c.abandon(f, side, len(h.ops))
	h.ops = h.ops[:0]
}

// abandon adds the first n open messages of a side to the list.
func (c *conversation) abandon(f *Follower, side, n int) {
	h := &c.halves[side]
	for i := range n {
		outcome := unanswered
		if h.ops[i].refused.record > 0 {
			outcome = refused
		}
		c.tell(f, side, &h.ops[i], outcome)
	}
}

// tell adds a message of a side to the list.
func (c *conversation) tell(f *Follower, side int, o *op, outcome string) {
	if !f.messages.take(o.again == 0 && (outcome == completed || outcome == unheard)) {
		return
	}
	m := Message{
		Conversation: c.id, From: [...]string{"a", "b"}[side], Operation: operation(o.kind), Bytes: o.moved(), PSN: int(o.first.Value()),
		Packets: int(o.n), Record: o.begun.record, At: o.begun.at, Outcome: outcome, Again: o.again,
	}
	if o.kind != roce.KindSend {
		m.VA, m.RKey = fmt.Sprintf("%#x", o.va), new(uint32(o.rkey))
	}
	switch outcome {
	case completed:
		m.Took = max(f.now.since(o.begun), 0)
	case refused:
		m.Took = max(o.refused.since(o.begun), 0)
	}
	f.messages.list = append(f.messages.list, m)
}

// operation returns the name of a request's operation.
func operation(k roce.Kind) string {
	if k == roce.KindReadRequest {
		return "READ"
	}
	return k.String()
}

// listMessages puts the messages into the report after it has numbered its
// conversations. It omits messages of unlisted conversations.
func (r *Report) listMessages(l *messages, number map[int]int) {
	r.Messages, r.UnlistedMessages = []Message{}, l.more
	for _, m := range l.list {
		if m.Conversation = number[m.Conversation]; m.Conversation == 0 {
			r.UnlistedMessages++
			continue
		}
		r.Messages = append(r.Messages, m)
	}
	slices.SortStableFunc(r.Messages, func(a, b Message) int {
		return cmp.Or(cmp.Compare(a.Record, b.Record), cmp.Compare(a.Conversation, b.Conversation))
	})
}
