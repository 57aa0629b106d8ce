package explain

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/roce"
)

// TestManyMigrations has a connection migrate again and again: only the last directions are
// remembered, and none after its end.
func TestManyMigrations(t *testing.T) {
	s := &scene{t: t}
	s.add(client, time.Microsecond, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, 0)})
	s.add(server, time.Microsecond, &roce.Packet{BTH: bth(roce.RCAcknowledge, 0x11, 0), AETH: roce.AETH{Syndrome: roce.ACKUnlimited, MSN: 1}})
	for i := range uint32(200) {
		p := &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, 1+i)}
		p.BTH.MigReq = true
		s.add(byte(10+i), time.Microsecond, p)
	}
	f, most := New(Config{}), 0
	s.follow(f, func() { most = max(most, len(f.flows)) })
	r := f.Report()
	if most != 2+maxRoutes || len(f.flows) != 0 || !strings.Contains(names(r), table[migrated].Name) || len(r.Conversations) != 1 {
		t.Errorf("%d directions are remembered, want %d, and %d after the end; found %s in %d conversations", most, 2+maxRoutes, len(f.flows), names(r), len(r.Conversations))
	}
}

// TestManyOpenMessages leaves messages without answers: each side has at least a few, and more
// only while all together are not too many. What a burst took is given back.
func TestManyOpenMessages(t *testing.T) {
	s := &scene{t: t}
	for i := range uint32(2 * maxOps) {
		s.add(client, time.Microsecond, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, i)})
	}
	for _, c := range []struct{ others, want int }{{0, maxOps}, {maxOpen - 100, 100}, {maxOpen, fewOps}} {
		f := New(Config{})
		f.pending = c.others
		s.follow(f, func() {})
		half := &f.alive.Front().Value.(*conversation).halves[0]
		if len(half.ops) != c.want || f.pending != c.others+c.want || half.skipped != 2*maxOps-c.want {
			t.Errorf("in addition to %d messages there is room for %d, want %d; %d in all, %d skipped", c.others, len(half.ops), c.want, f.pending, half.skipped)
		}
	}
	s.add(server, time.Microsecond, &roce.Packet{BTH: bth(roce.RCAcknowledge, 0x11, 2*maxOps-1), AETH: roce.AETH{Syndrome: roce.ACKUnlimited, MSN: 1}})
	f := New(Config{})
	s.follow(f, func() {})
	if half := &f.alive.Front().Value.(*conversation).halves[0]; len(half.ops) != 0 || cap(half.ops) > 4*fewOps || f.pending != 0 {
		t.Errorf("%d messages are open after the answer, with room for %d; %d in all", len(half.ops), cap(half.ops), f.pending)
	}
}

// TestPendingIsExact counts the open messages after each packet of captures.
func TestPendingIsExact(t *testing.T) {
	all, err := filepath.Glob(captures + "*.pcap")
	if err != nil || len(all) < 100 {
		t.Fatal(len(all), err)
	}
	for i := 0; i < len(all); i += 10 {
		b, err := os.ReadFile(all[i])
		must.Do(t, err)
		r, err := pcapfile.NewReader(bytes.NewReader(b))
		must.Do(t, err)
		f := New(Config{Conversations: 2})
		for p, err := r.Next(); err == nil; p, err = r.Next() {
			f.Add(p)
			sum := 0
			for e := f.alive.Front(); e != nil; e = e.Next() {
				sum += e.Value.(*conversation).open()
			}
			if sum != f.pending {
				t.Fatalf("%s, record %d: %d messages are open, %d are counted", all[i], p.Record, sum, f.pending)
			}
		}
		if f.Report(); f.pending != 0 || len(f.flows)+len(f.byQPN)+len(f.alone)+len(f.links) != 0 {
			t.Errorf("%s: after the end %d messages, %d directions, %d queue pairs, %d pairs of addresses and %d exchanges are remembered",
				all[i], f.pending, len(f.flows), len(f.byQPN), len(f.alone), len(f.links))
		}
	}
}

// TestDisprovedGuess guesses with which direction a connection belongs together, and then gets an
// answer that shows another one: the requests of the wrong direction are unanswered, and nothing of
// it is remembered.
func TestDisprovedGuess(t *testing.T) {
	const wrong = 700
	for _, c := range []struct {
		name  string
		other bool // the right direction has a request of its own before its answer
	}{{"the answer is the first packet of its direction", false}, {"two conversations become one", true}} {
		s := &scene{t: t}
		ack := func(to ib.QPN, psn uint32) {
			s.add(server, time.Microsecond, &roce.Packet{BTH: bth(roce.RCAcknowledge, to, psn), AETH: roce.AETH{Syndrome: roce.ACKUnlimited}})
		}
		for i := range uint32(3) {
			s.add(client, time.Microsecond, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, 5000+i)})
		}
		ack(0x11, 4000000)
		for i := range uint32(wrong) {
			s.add(server, time.Microsecond, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x11, i)})
		}
		if c.other {
			s.add(server, time.Microsecond, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x33, 0)})
		}
		ack(0x33, 5000)
		f := New(Config{})
		s.follow(f, func() {
			sum := 0
			for e := f.alive.Front(); e != nil; e = e.Next() {
				sum += e.Value.(*conversation).open()
			}
			if sum != f.pending {
				t.Fatalf("%s: %d messages are open, %d are counted", c.name, sum, f.pending)
			}
		})
		_, old := f.byQPN[0x11]
		r := f.Report()
		unheard := 0
		for _, m := range r.Messages {
			if m.From == "b" && m.Outcome == unanswered && m.Record > 4 && m.Record <= 4+wrong {
				unheard++
			}
		}
		if old || f.pending != 0 || len(f.flows)+len(f.byQPN)+len(f.alone) != 0 {
			t.Errorf("%s: the wrong queue pair is remembered: %v; after the end %d messages, %d directions, %d queue pairs and %d pairs of addresses are",
				c.name, old, f.pending, len(f.flows), len(f.byQPN), len(f.alone))
		}
		if unheard != wrong || len(r.Conversations) != 1 || *r.Conversations[0].A.QPN != 0x33 {
			t.Errorf("%s: %d requests of the wrong direction are unanswered, want %d; %d conversations, the first of QP %#x", c.name, unheard, wrong, len(r.Conversations), *r.Conversations[0].A.QPN)
		}
	}
}

// TestGuessStays leaves a guess alone that no answer disproves.
func TestGuessStays(t *testing.T) {
	s := &scene{t: t}
	s.add(server, time.Microsecond, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x33, 0)})
	s.add(client, time.Microsecond, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, 5000)})
	s.add(server, time.Microsecond, &roce.Packet{BTH: bth(roce.RCAcknowledge, 0x11, 4000000), AETH: roce.AETH{Syndrome: roce.ACKUnlimited}})
	s.add(server, time.Microsecond, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x11, 7)})
	f := New(Config{})
	s.follow(f, func() {})
	if r := f.Report(); len(r.Conversations) != 2 || f.pending != 0 || len(f.flows)+len(f.byQPN)+len(f.alone) != 0 {
		t.Errorf("%d conversations, want 2; after the end %d messages, %d directions, %d queue pairs and %d pairs of addresses are remembered",
			len(r.Conversations), f.pending, len(f.flows), len(f.byQPN), len(f.alone))
	}
}

// TestPairedUC pairs the directions of many UC connections, one after the other: a pair is settled,
// so a packet of another connection does not end it, and the list of unpaired conversations has
// room for later ones.
func TestPairedUC(t *testing.T) {
	const many = maxAlone + 10
	send := func(s *scene, from byte, to ib.QPN, psn uint32) {
		s.add(from, time.Microsecond, &roce.Packet{BTH: bth(roce.UCSendOnly, to, psn)})
	}
	s := &scene{t: t}
	for i := range ib.QPN(many) {
		send(s, client, 0x200+i, 5)
		send(s, server, 0x100+i, 900)
	}
	f := New(Config{})
	s.follow(f, func() {
		for pair, list := range f.alone {
			for _, c := range list {
				if c.paired != "" {
					t.Fatalf("%v: conversation %d is paired by %s and remembered as unpaired", pair, c.id, c.paired)
				}
			}
		}
	})
	r := f.Report()
	for i, c := range r.Conversations {
		if c.Paired != "addresses" || c.Packets != 2 || *c.A.QPN != 0x100+i || *c.B.QPN != 0x200+i {
			t.Fatalf("conversation %d of %d is %+v", i, len(r.Conversations), c)
		}
	}
	if len(r.Conversations) != many || len(f.alone) != 0 {
		t.Errorf("%d conversations, want %d; %d pairs of addresses are remembered", len(r.Conversations), many, len(f.alone))
	}
	s = &scene{t: t}
	send(s, client, 0x22, 5)
	send(s, server, 0x11, 900)
	send(s, server, 0x33, 70) // of another connection
	send(s, server, 0x11, 901)
	send(s, client, 0x44, 6)
	r = s.explain()
	if len(r.Conversations) != 2 || r.Conversations[0].Packets != 3 || *r.Conversations[0].A.QPN != 0x11 || *r.Conversations[1].A.QPN != 0x44 || *r.Conversations[1].B.QPN != 0x33 {
		t.Errorf("%d conversations: %+v", len(r.Conversations), r.Conversations)
	}
}

// TestManyAddresses has packets of more addresses than are remembered, also as the own ones of
// the place of capture.
func TestManyAddresses(t *testing.T) {
	f := New(Config{})
	for i := range 3 * maxAddrs {
		a := netip.AddrFrom4([4]byte{10, 77, byte(i % (2 * maxAddrs) >> 8), byte(i % (2 * maxAddrs))})
		f.damage.know(a)
		f.arrival(&pcapfile.Packet{Src: a, Direction: pcapfile.Outbound})
	}
	if len(f.damage.addrs) != maxAddrs || len(f.own) != maxAddrs {
		t.Errorf("%d addresses and %d own ones are remembered, want %d", len(f.damage.addrs), len(f.own), maxAddrs)
	}
}

// TestManyExchanges has more connection requests at once than are followed: the oldest ends,
// and is counted.
func TestManyExchanges(t *testing.T) {
	const room, many = 8, 20
	s, most := load(t, "cm_rping"), 0
	s.keep(func(i int, f *frame) bool { return i < 1 })
	f := New(Config{Conversations: room})
	r, err := pcapfile.NewReader(bytes.NewReader(s.file()))
	must.Do(t, err)
	p, err := r.Next()
	must.Do(t, err)
	for i := range many {
		p.Src = netip.AddrFrom4([4]byte{10, 77, 1, byte(i)})
		f.open(p, linkKey{addr: p.Src, id: uint32(i)})
		most = max(most, len(f.links), f.order.Len())
	}
	if report := f.Report(); most != room || report.Ended != many-room {
		t.Errorf("%d exchanges are followed at once, want %d, and %d ended early, want %d", most, room, report.Ended, many-room)
	}
}

// read adds a READ request, and its responses from one to another.
func (s *scene) read(psn, n uint32) {
	p := &roce.Packet{BTH: bth(roce.RCRDMAReadRequest, 0x22, psn), RETH: roce.RETH{VA: 64, RKey: 5, Length: n * 256}}
	s.add(client, 2*time.Millisecond, p)
}

func (s *scene) respond(from, to uint32) {
	for psn := from; psn < to; psn++ {
		s.add(server, time.Microsecond, &roce.Packet{BTH: bth(roce.RCRDMAReadResponseMiddle, 0x11, psn), Payload: make([]byte, 256)})
	}
}

// TestReadRepeats reads a part of a READ again. It is complete when the responses that the
// repeat asks for have come too, and not before.
func TestReadRepeats(t *testing.T) {
	for _, c := range []struct {
		name    string
		play    func(s *scene)
		outcome string
		again   int
	}{
		{"no repeat", func(s *scene) { s.respond(0, 8) }, completed, 0},
		{"the rest", func(s *scene) { s.respond(0, 4); s.read(4, 4); s.respond(4, 8) }, completed, 1},
		{"more than the rest", func(s *scene) { s.respond(0, 4); s.read(2, 6); s.respond(4, 8) }, unanswered, 1},
		{"all of that", func(s *scene) { s.respond(0, 4); s.read(2, 6); s.respond(2, 8) }, completed, 1},
		{"a gap", func(s *scene) { s.respond(0, 2); s.respond(4, 8); s.read(2, 2); s.respond(2, 4) }, completed, 1},
		{"twice", func(s *scene) { s.respond(0, 4); s.read(4, 4); s.read(4, 4); s.respond(4, 8) }, completed, 2},
	} {
		s := &scene{t: t}
		s.read(0, 8)
		c.play(s)
		r := s.explain()
		if len(r.Messages) != 1 || r.Messages[0].Outcome != c.outcome || r.Messages[0].Again != c.again || (r.Messages[0].Took > 0) != (c.outcome == completed) {
			t.Errorf("%s: %+v; want %s after %d repeats; found %s", c.name, r.Messages, c.outcome, c.again, names(r))
		}
	}
}

// TestRestarts has a queue pair begin anew with other PSNs: what was completed before counts,
// and what was not is unanswered.
func TestRestarts(t *testing.T) {
	s := &scene{t: t}
	for i, psn := range []uint32{0x10, 0x11, 0x400000, 0x800000} {
		s.add(client, time.Millisecond, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, psn), Payload: make([]byte, 4)})
		if i != 1 {
			s.add(server, time.Duration(4-i)*time.Millisecond, &roce.Packet{BTH: bth(roce.RCAcknowledge, 0x11, psn), AETH: roce.AETH{Syndrome: roce.ACKUnlimited, MSN: 1}})
		}
	}
	r := s.explain()
	var outcomes []string
	for _, m := range r.Messages {
		outcomes = append(outcomes, m.Outcome)
	}
	c := &r.Conversations[0]
	if got := strings.Join(outcomes, " "); got != "completed unanswered completed completed" || c.AToB.Messages != 3 || c.AToB.Bytes != 12 || c.AToB.Answers != 3 ||
		c.AToB.Mean != 7*time.Millisecond/3 || c.AToB.Longest != 4*time.Millisecond {
		t.Errorf("the messages are %s, and the requests %+v", got, c.AToB)
	}
}

// TestEarlyAcknowledgements acknowledges requests before the response to an earlier one: when
// that comes, all of them are complete.
func TestEarlyAcknowledgements(t *testing.T) {
	ack := func(s *scene, psn uint32, msn ib.MSN) {
		s.add(server, time.Millisecond, &roce.Packet{BTH: bth(roce.RCAcknowledge, 0x11, psn), AETH: roce.AETH{Syndrome: roce.ACKUnlimited, MSN: msn}})
	}
	atomic := func(s *scene, op roce.Opcode, from byte, psn uint32) {
		to := ib.QPN(0x22)
		if from == server {
			to = 0x11
		}
		s.add(from, time.Millisecond, &roce.Packet{BTH: bth(op, to, psn), AETH: roce.AETH{Syndrome: roce.ACKUnlimited, MSN: 3}})
	}
	s := &scene{t: t}
	atomic(s, roce.RCFetchAdd, client, 0)
	s.read(1, 1)
	s.add(client, time.Millisecond, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, 2)})
	s.add(client, time.Millisecond, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, 3)})
	s.respond(1, 2)
	ack(s, 2, 3)
	atomic(s, roce.RCFetchAdd, client, 0)
	atomic(s, roce.RCAtomicAcknowledge, server, 0)
	r := s.explain()
	var outcomes []string
	for _, m := range r.Messages {
		outcomes = append(outcomes, m.Outcome)
	}
	if got := strings.Join(outcomes, " "); got != "completed completed completed unanswered" {
		t.Errorf("the messages are %s; found %s", got, names(r))
	}
}

// TestFlippedSides merges the two directions of a connection that were captured as two
// conversations, the second direction first: its packets get the sides, states and marks of
// the merged one.
func TestFlippedSides(t *testing.T) {
	s := &scene{t: t}
	s.add(client, time.Microsecond, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, 5)})
	s.add(server, time.Microsecond, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x11, 900)})
	s.add(server, time.Microsecond, &roce.Packet{BTH: bth(roce.RCAcknowledge, 0x11, 5), AETH: roce.AETH{Syndrome: roce.ACKUnlimited, MSN: 1}})
	r := s.kept(Config{Packets: 10})
	second := r.Kept[1]
	if len(r.Conversations) != 1 || second.Side != 1 || second.Ends[1].Next != 901 || second.Ends[1].Phase != Waiting || second.Ends[0].Phase != Unseen {
		t.Errorf("%d conversations; the second packet is %+v", len(r.Conversations), second)
	}
	if a := r.Conversations[0]; a.Packets != 3 || a.First != 1 || a.Last != 3 || *a.A.QPN != 0x11 || *a.B.QPN != 0x22 || a.AToB.Messages != 1 {
		t.Errorf("the conversation is %+v", a)
	}
}

// TestMergedByGuess merges two directions because of an answer that fits no request: the report does
// not say that answers show that they belong together.
func TestMergedByGuess(t *testing.T) {
	for _, c := range []struct {
		psn  uint32
		want string
	}{{5, "answers"}, {4000000, "addresses"}} {
		s := &scene{t: t}
		s.add(client, time.Microsecond, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, 5)})
		s.add(server, time.Microsecond, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x11, 900)})
		s.add(server, time.Microsecond, &roce.Packet{BTH: bth(roce.RCAcknowledge, 0x11, c.psn), AETH: roce.AETH{Syndrome: roce.ACKUnlimited}})
		if r := s.explain(); len(r.Conversations) != 1 || r.Conversations[0].Paired != c.want {
			t.Errorf("PSN %d: %+v, want one conversation paired by %s", c.psn, r.Conversations, c.want)
		}
	}
}

// TestUnpairedDirections has requests in both directions and no answer: one connection, as
// there is no other between the two hosts; with another one nobody can tell.
func TestUnpairedDirections(t *testing.T) {
	for _, many := range []int{1, 2} {
		s := &scene{t: t}
		for i := range many {
			s.add(client, time.Microsecond, &roce.Packet{BTH: bth(roce.RCSendOnly, ib.QPN(0x22+i), 5)})
			s.add(server, time.Microsecond, &roce.Packet{BTH: bth(roce.RCSendOnly, ib.QPN(0x11+i), 900)})
		}
		if r := s.explain(); many == 1 && (len(r.Conversations) != 1 || r.Conversations[0].Paired != "addresses") || many == 2 && len(r.Conversations) != 4 {
			t.Errorf("%d in each direction make %d conversations", many, len(r.Conversations))
		}
	}
}
