package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
)

// rung is a packet in the ladder of a conversation.
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
	before = 8 // packets shown up to the finding
	after  = 8 // packets shown after it
)

// ladder keeps the packets around the first of the gravest findings.
type ladder struct {
	ring  [before]rung
	n     int // packets in all
	held  []rung
	grave int // 1 plus the severity of the finding in held
	more  int // packets still to be added to held
}

func (l *ladder) add(r rung) {
	l.ring[l.n%before] = r
	l.n++
	if l.more > 0 {
		l.more--
		l.held = append(l.held, r)
	}
}

// keep copies the ring to held because of a finding with a severity.
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

// rungs returns the held packets.
func (l *ladder) rungs() []rung { return l.held }

// String describes the packet in a few words.
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

// Ladder returns the packets around the cause of the verdict, and the two ends. It
// returns none if the cause belongs to no conversation.
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
