package explain

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric/ipudp"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/roce"
)

// TestFullTables fills what is remembered beyond its bounds.
func TestFullTables(t *testing.T) {
	addr := netip.AddrFrom4([4]byte{10, 77, 0, client})
	var k keys
	var q qkeys
	for i := range maxKeys + 10 {
		k.put(keyOf{addr, ib.RKey(i)}, keyUse{used: 1})
		q.announce(qpAt{addr, ib.QPN(i)}, qkeyOf{record: 1})
	}
	k.put(keyOf{addr, 0}, keyUse{used: 2})
	q.announce(qpAt{addr, 0}, qkeyOf{record: 2})
	if n, used := len(k.known), k.known[keyOf{addr, 0}].used; n != maxKeys || used != 2 {
		t.Errorf("%d keys are remembered, want %d; the first was used in record %d, want 2", n, maxKeys, used)
	}
	if n, in := len(q.known), q.known[qpAt{addr, 0}].record; n != maxQKeys || in != 2 {
		t.Errorf("%d Q_Keys are remembered, want %d; the first is of record %d, want 2", n, maxQKeys, in)
	}
	for i := range maxKeys + 10 {
		k.executed(addr, &op{kind: roce.KindSend, srqn: ib.SRQN(i + 1), begun: instant{record: 1}})
	}
	k.executed(addr, &op{kind: roce.KindSend, srqn: 1, begun: instant{record: 2}})
	if n, in := len(k.queues), k.queues[queueOf{addr, 1}]; n != maxKeys || in != 2 {
		t.Errorf("%d shared receive queues are remembered, want %d; the first was reached in record %d, want 2", n, maxKeys, in)
	}
	var d deferred
	for i := range maxDeferred + 10 {
		d.put(&op{src: ib.QPN(i)}, time.Millisecond, instant{})
	}
	d.put(&op{src: 1}, time.Millisecond, instant{})
	if len(d.list) != maxDeferred || d.list[1].naks != 2 {
		t.Errorf("messages of %d queue pairs are remembered, want %d; the second was put off %d times, want 2", len(d.list), maxDeferred, d.list[1].naks)
	}
	var in intact
	for i := range 2 * maxGaps {
		in.add(ib.NewPSN(uint32(2 * i)))
	}
	if last := ib.NewPSN(2 * (2*maxGaps - 1)); len(in.runs) != maxGaps || !in.has(last) || in.has(ib.NewPSN(0)) {
		t.Errorf("%d runs are remembered, want the last %d", len(in.runs), maxGaps)
	}
	if in.add(ib.NewPSN(4 * maxJump)); len(in.runs) != 1 {
		t.Errorf("%d runs are remembered, want 1: the others are too far away", len(in.runs))
	}
}

// TestManyAlone follows one direction of many connections between two hosts.
func TestManyAlone(t *testing.T) {
	s := &scene{t: t}
	for i := range 2 * maxAlone {
		s.add(client, time.Microsecond, &roce.Packet{BTH: bth(roce.RCSendOnly, ib.QPN(100+i), 1)})
	}
	f, most := New(Config{}), 0
	s.follow(f, func() {
		for _, list := range f.alone {
			most = max(most, len(list))
		}
	})
	if most != maxAlone {
		t.Errorf("%d connections of which one direction is known are looked through, want %d", most, maxAlone)
	}
}

// TestUnlistedFindings follows more connections than a report lists: their findings count.
func TestUnlistedFindings(t *testing.T) {
	const many, each = defaultListed + 40, 3
	s := &scene{t: t}
	for i := range many {
		for k := range each {
			s.add(client, time.Microsecond, &roce.Packet{BTH: bth(roce.UCSendOnly, ib.QPN(100+i), uint32(k))})
		}
	}
	r, err := Read(bytes.NewReader(s.file()), Config{Messages: many * each})
	must.Do(t, err)
	sum := 0
	for _, f := range r.Findings {
		if f.id == nothingAnswers {
			sum += f.Count
		}
	}
	if r.Unlisted != many-defaultListed || len(r.Messages)+r.UnlistedMessages != many*each || sum != many*each {
		t.Errorf("%d connections are not listed, want %d; %d messages are counted and %d found, want %d",
			r.Unlisted, many-defaultListed, len(r.Messages)+r.UnlistedMessages, sum, many*each)
	}
}

// TestTimesOfReports checks on all captures that conversations and messages lie within
// them, and that what connection managers say belongs to no queue pair.
func TestTimesOfReports(t *testing.T) {
	for name, r := range everyReport(t) {
		byID := map[int]*Conversation{}
		for i := range r.Conversations {
			c := &r.Conversations[i]
			byID[c.ID] = c
			if c.Start+c.Length > r.Duration || c.First > c.Last {
				t.Errorf("%s: conversation %d is from record %d at %v to record %d, %v later, in a capture of %v", name, c.ID, c.First, c.Start, c.Last, c.Length, r.Duration)
			}
			if c.Service == "CM" && (c.A.QPN != nil || c.B.QPN != nil) {
				t.Errorf("%s: conversation %d of connection managers is between %v and %v", name, c.ID, c.A, c.B)
			}
		}
		for i := range r.Messages {
			m := &r.Messages[i]
			c := byID[m.Conversation]
			if m.At < c.Start || m.At+m.Took > c.Start+c.Length {
				t.Errorf("%s: the message in record %d, at %v for %v, is outside of its conversation, at %v for %v", name, m.Record, m.At, m.Took, c.Start, c.Length)
			}
		}
	}
}

// TestSecondConversation finds something in two connections: each finding says in which.
func TestSecondConversation(t *testing.T) {
	s := &scene{t: t}
	for i := range 2 {
		s.add(client, time.Microsecond, &roce.Packet{BTH: bth(roce.UCSendOnly, ib.QPN(100+i), 1)})
	}
	r := s.explain()
	if len(r.Findings) != 2 || r.Findings[0].Conversation != 1 || r.Findings[1].Conversation != 2 {
		t.Errorf("found %s, want one in each of two conversations", names(r))
	}
}

// TestManyGaps fills gaps in their middle, which makes two of each.
func TestManyGaps(t *testing.T) {
	s, f, most := &scene{t: t}, New(Config{}), 0
	for _, from := range [...]uint32{0, 2} {
		for i := range uint32(maxGaps + 1) {
			s.add(client, time.Microsecond, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, 4*i+from)})
		}
	}
	s.follow(f, func() {
		for e := f.alive.Front(); e != nil; e = e.Next() {
			most = max(most, len(e.Value.(*conversation).halves[0].gaps))
		}
	})
	if most != maxGaps {
		t.Errorf("%d gaps are remembered, want %d", most, maxGaps)
	}
}

// TestManySenders counts the packets of more addresses than are remembered.
func TestManySenders(t *testing.T) {
	f := New(Config{})
	for i := range 2 * maxSenders {
		f.sound(&pcapfile.Packet{Src: netip.AddrFrom4([4]byte{10, 77, byte(i >> 8), byte(i)})}, true)
	}
	if n := len(f.damage.senders); n != maxSenders {
		t.Errorf("%d senders are remembered, want %d", n, maxSenders)
	}
}

// TestManyCandidates has an answer that may belong to any of several connections, whose ports
// say nothing.
func TestManyCandidates(t *testing.T) {
	s := &scene{t: t}
	for i := range 4 {
		s.add(client, time.Microsecond, &roce.Packet{BTH: bth(roce.RCSendOnly, ib.QPN(100+i), 7)})
	}
	s.add(server, time.Microsecond, &roce.Packet{BTH: bth(roce.RCAcknowledge, 0x11, 7), AETH: roce.AETH{Syndrome: roce.ACKUnlimited, MSN: 1}})
	last := &s.frames[len(s.frames)-1]
	last.data[ethernet+ipudp.IPv4Len]++ // another UDP source port
	last.seal()
	if r := s.explain(); len(r.Conversations) != 5 {
		t.Errorf("the answer was taken for that of one of four connections: %d conversations", len(r.Conversations))
	}
}
