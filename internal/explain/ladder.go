package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
)

// rung is a packet in the picture of a conversation.
type rung struct {
	Record   int
	At       time.Duration
	Side     int // who sent it
	text     string
	op       roce.Opcode
	psn      ib.PSN
	size     int
	aeth     bool
	syndrome roce.Syndrome
}

const (
	before = 8 // packets that are shown up to what happened
	after  = 8 // and behind it
)

// ladder keeps the packets around the gravest thing that happened first.
type ladder struct {
	ring  [before]rung
	n     int // packets, ever
	held  []rung
	grave int // 1 and the severity of what is held
	more  int // packets to be added to it
}

func (l *ladder) add(r rung) {
	l.ring[l.n%before] = r
	l.n++
	if l.more > 0 {
		l.more--
		l.held = append(l.held, r)
	}
}

// keep holds what is in the ring because of something of a severity.
func (l *ladder) keep(s Severity) {
	if int(s)+1 <= l.grave {
		return
	}
	l.grave, l.more = int(s)+1, after
	l.held = l.recent()
}

// recent returns the last packets, the oldest first.
func (l *ladder) recent() []rung {
	var rs []rung
	for i := max(0, l.n-before); i < l.n; i++ {
		rs = append(rs, l.ring[i%before])
	}
	return rs
}

// rungs returns what is held.
func (l *ladder) rungs() []rung { return l.held }

// String returns what the packet is, in a few words.
func (r *rung) String() string {
	if r.text != "" {
		return r.text
	}
	s := fmt.Sprintf("%v psn %v", r.op, r.psn)
	if r.aeth {
		s += " " + r.syndrome.String()
	}
	if r.size > 0 {
		s += fmt.Sprintf(" %d bytes", r.size)
	}
	return s
}

// Rung is a packet in the ladder of a report.
type Rung struct {
	Record int
	At     time.Duration
	Side   int // who sent it: 0 is the first end
	Text   string
}

// Ladder returns the packets around what explains the verdict, and the two ends.
// There are none if that belongs to no conversation.
func (r *Report) Ladder() ([]Rung, [2]End) {
	i := slices.IndexFunc(r.Findings, func(f *Finding) bool { return f.Rule == r.Verdict.Cause && f.Conversation > 0 })
	if i < 0 {
		return nil, [2]End{}
	}
	c := &r.Conversations[r.Findings[i].Conversation-1]
	var rungs []Rung
	for k := range c.ladder {
		g := &c.ladder[k]
		rungs = append(rungs, Rung{g.Record, g.At, g.Side, g.String()})
	}
	return rungs, [2]End{c.A, c.B}
}
