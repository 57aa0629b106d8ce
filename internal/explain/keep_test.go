package explain

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/internal/printable"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// kept reads a capture with room for packets.
func (s *scene) kept(c Config) *Report {
	s.t.Helper()
	r, err := Read(bytes.NewReader(s.file()), c)
	must.Do(s.t, err)
	return r
}

// TestKeptPackets keeps the packets of captures of Linux: the heads are those of
// the file, and the marks and states tell what happened.
func TestKeptPackets(t *testing.T) {
	s := load(t, "loss_send_middle.client")
	r := s.kept(Config{Packets: 1000})
	if len(r.Kept) != len(s.frames) {
		t.Fatalf("%d of %d packets are kept", len(r.Kept), len(s.frames))
	}
	repeats, asked := 0, false
	for i := range r.Kept {
		p := &r.Kept[i]
		if p.Record != i+1 || p.Conversation != 1 || !bytes.HasPrefix(s.frames[i].data[headers:], p.Head) || len(p.Head) < roce.BTHLen {
			t.Fatalf("packet %d is kept as %+v", i+1, p)
		}
		if p.Marks&Repeated != 0 {
			repeats++
		}
		asked = asked || p.Ends[0].Phase == AskedFor
	}
	if last := &r.Kept[len(r.Kept)-1]; repeats == 0 || !asked || last.Ends[0].Phase != Idle || last.Ends[0].Next != last.Ends[0].Una || last.Ends[1].Phase != Unseen {
		t.Errorf("%d repeats, asked for %t; at the end %+v", repeats, asked, last.Ends)
	}
	if f := r.Findings[0]; r.Kept[f.First-1].Finding != f.Rule {
		t.Errorf("%s is found in record %d, which says %q", f.Rule, f.First, r.Kept[f.First-1].Finding)
	}
	r = load(t, "cm_cmx_reject").kept(Config{Packets: 1000})
	if p := &r.Kept[0]; len(p.Head) != roce.BTHLen+8+mad.Size+roce.ICRCLen || p.Conversation == 0 {
		t.Errorf("of a management datagram %d bytes are kept, for conversation %d", len(p.Head), p.Conversation)
	}
	r = load(t, "errs_rnr_exceeded").kept(Config{Packets: 1000})
	if r.Kept[2].Ends[0].Phase != NotReady || r.Kept[2].Ends[0].MSN != 0 {
		t.Errorf("after an RNR NAK: %+v", r.Kept[2].Ends)
	}
	r = load(t, "errs_bad_rkey_write").kept(Config{Packets: 1000})
	if r.Kept[2].Ends[0].Phase != Refused {
		t.Errorf("after a NAK: %+v", r.Kept[2].Ends)
	}
}

// TestKeptPacketsAreBounded keeps the first of too many packets, or those around
// a record.
func TestKeptPacketsAreBounded(t *testing.T) {
	const all, room = 1000, 100
	s := &scene{t: t}
	for i := range uint32(all / 2) {
		s.add(client, time.Microsecond, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, i)})
		s.add(server, time.Microsecond, &roce.Packet{BTH: bth(roce.RCAcknowledge, 0x11, i), AETH: roce.AETH{Syndrome: roce.ACKUnlimited, MSN: ib.MSN(i + 1)}})
	}
	for _, c := range []struct{ around, first, last int }{
		{0, 1, 100}, {1, 1, 100}, {50, 1, 100}, {51, 1, 100}, {60, 10, 109}, {500, 450, 549}, {990, 901, 1000}, {1000, 901, 1000},
	} {
		r := s.kept(Config{Packets: room, Around: c.around})
		first, last := r.Kept[0].Record, r.Kept[len(r.Kept)-1].Record
		if len(r.Kept) > room || c.around > 0 && (first > c.around || last < c.around) {
			t.Errorf("around %d: %d packets, %d to %d", c.around, len(r.Kept), first, last)
		}
		if c.around < 500 && (first != c.first || last != c.last) {
			t.Errorf("around %d: %d to %d, not %d to %d", c.around, first, last, c.first, c.last)
		}
		if before, behind := c.around-first, last-c.around; c.around >= 500 && (before < room/2-1 || behind < min(room/2-1, all-c.around)) {
			t.Errorf("around %d: %d before and %d behind", c.around, before, behind)
		}
	}
}

// TestKeptSides joins two conversations of which each had one direction: their
// packets keep their senders.
func TestKeptSides(t *testing.T) {
	s := &scene{t: t}
	send := func(from byte, to ib.QPN, psn uint32) {
		s.add(from, time.Microsecond, &roce.Packet{BTH: bth(roce.RCSendOnly, to, psn)})
	}
	send(client, 0x22, 5)
	send(client, 0x33, 500)
	send(server, 0x11, 900)
	send(server, 0x44, 800)
	ack := func(from byte, to ib.QPN, psn uint32) {
		s.add(from, time.Microsecond, &roce.Packet{BTH: bth(roce.RCAcknowledge, to, psn), AETH: roce.AETH{Syndrome: roce.ACKUnlimited, MSN: 1}})
	}
	ack(client, 0x22, 900)
	ack(server, 0x11, 5)
	ack(server, 0x44, 500)
	r := s.kept(Config{Packets: 100})
	for i := range r.Kept {
		p := &r.Kept[i]
		c := r.Conversations[p.Conversation-1]
		if from := [...]End{c.A, c.B}[p.Side].Addr; from != p.Src.String() {
			t.Errorf("packet %d is of %v, and conversation %d has %s there", p.Record, p.Src, p.Conversation, from)
		}
	}
}

// TestComments quotes the comments of records, which may have any content, on one line and
// cuts them, wherever a report has them.
func TestComments(t *testing.T) {
	s := &scene{t: t}
	s.add(client, time.Microsecond, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, 1)})
	const attack = "lost by rule 'x'\r\nVERDICT clean: \x1b[2J\u202e\x80"
	f := New(Config{Packets: 1})
	r, err := pcapfile.NewReader(bytes.NewReader(s.file()))
	must.Do(t, err)
	p, err := r.Next()
	must.Do(t, err)
	p.Comment = attack + strings.Repeat("ä", 70_000)
	f.Add(p)
	report := f.Report()
	const want = `lost by rule 'x'\r\nVERDICT clean: \x1b[2J\u202e\x80ää`
	for _, text := range []string{report.Kept[0].Comment, report.Verdict.Fault, report.Findings[len(report.Findings)-1].Detail} {
		if !strings.Contains(text, want) || !strings.HasSuffix(text, "ä…") || len(text) > 2*printable.Limit+100 {
			t.Errorf("a comment of %d bytes becomes %d: %s", len(p.Comment), len(text), text)
		}
	}
}
