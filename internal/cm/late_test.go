package cm

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/internal/nasty"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/mad"
)

// onlyCM is the configuration that delays and repeats messages, and does nothing else.
func onlyCM(seed uint64) nasty.Config {
	c := nasty.Config{Seed: seed}
	for p := range nasty.NumParts {
		c.Without[p] = p != nasty.CM
	}
	return c
}

// nastyNetwork returns a network whose managers delay and repeat messages, and counts their records.
func nastyNetwork(t testing.TB, c nasty.Config) (n *network, a, b *node, did map[string]int) {
	n, a, b = newNetwork(t)
	did = make(map[string]int)
	for i, e := range n.nodes {
		e.m.cfg.Nasty = c.New(i)
		e.m.cfg.Trace = func(r *trace.Record) {
			if r.Kind != trace.Fault {
				return
			}
			words := strings.Fields(r.Cause) // nasty: REQ is sent twice, or nasty: REQ is sent 2.5ms late
			did[words[1]+" "+words[len(words)-1]]++
			if d, err := time.ParseDuration(words[4]); err == nil && d > mostDelay {
				t.Errorf("%s; want %v at most", r.Cause, mostDelay)
			}
		}
	}
	return n, a, b, did
}

// TestK2_MessagesAreLateAndRepeated shows that connections are established and end as usual, with each
// event once, though messages come late and twice; and that none is late by more than 5 ms.
func TestK2_MessagesAreLateAndRepeated(t *testing.T) {
	did := map[string]int{}
	for seed := uint64(1); seed <= 100; seed++ {
		n, a, b, d := nastyNetwork(t, onlyCM(seed))
		b.listen()
		c := a.ask(b)
		n.run(20 * time.Millisecond)
		if len(b.conns) != 1 || c.State() != Established || b.conns[0].State() != Established {
			t.Fatalf("seed %d: states %v and %v:\n%s", seed, c.State(), b.conns[0].State(), n.tail())
		}
		n.do(c.SendDREQ(n.now, nil))
		n.run(20 * time.Millisecond)
		if c.State() != Timewait || b.conns[0].State() != Timewait {
			t.Fatalf("seed %d: states %v and %v:\n%s", seed, c.State(), b.conns[0].State(), n.tail())
		}
		if want := []EventType{REPReceived, DREPReceived}; !slices.Equal(a.heard, want) {
			t.Errorf("seed %d: the active side heard %v, want %v", seed, a.heard, want)
		}
		if want := []EventType{REQReceived, RTUReceived, DREQReceived}; !slices.Equal(b.heard, want) {
			t.Errorf("seed %d: the passive side heard %v, want %v", seed, b.heard, want)
		}
		for what, k := range d {
			did[what] += k
		}
		n.wantEmpty()
	}
	t.Logf("seeds 1 to 100: %v", did)
	for _, kind := range []string{"REP", "RTU", "DREP"} {
		if did[kind+" late"] == 0 || (did[kind+" twice"] == 0) != (kind == "REP") { // which the allowance limits
			t.Errorf("of 100 %ss, %d were late and %d were sent twice", kind, did[kind+" late"], did[kind+" twice"])
		}
	}
}

// TestK2_MessagesKeepOrder sends an RTU and at once another message of the connection: the RTU comes
// first, though it may leave late.
func TestK2_MessagesKeepOrder(t *testing.T) {
	for next, send := range map[EventType]func(a, b *node, now clock.Instant, c *Conn) error{
		DREQReceived: func(_, _ *node, now clock.Instant, c *Conn) error { return c.SendDREQ(now, nil) },
		LAPReceived: func(a, b *node, now clock.Instant, c *Conn) error {
			path := a.pathTo(b)
			return c.SendLAP(now, &path, nil)
		},
	} {
		for seed := uint64(1); seed <= 100; seed++ {
			n, a, b, _ := nastyNetwork(t, onlyCM(seed))
			b.listen()
			a.program = func(now clock.Instant, c *Conn, ev *Event) {
				if ev.Type == REPReceived {
					n.do(c.SendRTU(now, nil))
					n.do(send(a, b, now, c))
				}
			}
			a.ask(b)
			n.run(30 * time.Millisecond)
			if want := []EventType{REQReceived, RTUReceived, next}; !slices.Equal(b.heard, want) {
				t.Errorf("seed %d: the passive side heard %v, want %v:\n%s", seed, b.heard, want, n.tail())
			}
		}
	}
}

// TestK2_RefusedRequestComesOnce refuses each request: no copy of it comes as another request.
func TestK2_RefusedRequestComesOnce(t *testing.T) {
	for seed := uint64(1); seed <= 100; seed++ {
		n, a, b, _ := nastyNetwork(t, onlyCM(seed))
		b.listen()
		b.program = func(now clock.Instant, c *Conn, ev *Event) {
			if ev.Type == REQReceived {
				n.do(c.SendREJ(now, &REJParams{Reason: mad.RejConsumer}))
			}
		}
		a.ask(b)
		n.run(30 * time.Millisecond)
		if !slices.Equal(b.heard, []EventType{REQReceived}) || !slices.Equal(a.heard, []EventType{REJReceived}) {
			t.Errorf("seed %d: the sides heard %v and %v, want one REJ and one REQ:\n%s", seed, a.heard, b.heard, n.tail())
		}
	}
}

// TestK2_ShortTimeouts shows that a connection whose messages are repeated after about a millisecond is
// established without a repetition: the delays are shorter.
func TestK2_ShortTimeouts(t *testing.T) {
	for seed := uint64(1); seed <= 50; seed++ {
		n, a, b, _ := nastyNetwork(t, onlyCM(seed))
		n.fate = func(*packet) []time.Duration { return []time.Duration{latency / 10} }
		b.listen()
		p := a.reqParams(b)
		p.ResponseTimeout, p.Path.Lifetime, p.MaxRetries = minPeerWait, 1, 1
		c := a.m.NewConn(a.onEvent)
		a.conns = append(a.conns, c)
		n.do(c.SendREQ(n.now, p))
		n.run(20 * time.Millisecond)
		again := a.m.Counters().Retries[0] // those of REQs
		if c.State() != Established || again != 0 {
			t.Fatalf("seed %d: state %v, the REQ was repeated %d times:\n%s", seed, c.State(), again, n.tail())
		}
	}
}

// TestK2_MessagesLeftOut shows that without the behaviour the same messages leave at the same times as
// without dice.
func TestK2_MessagesLeftOut(t *testing.T) {
	run := func(c nasty.Config) string {
		n, a, b, _ := nastyNetwork(t, c)
		b.listen()
		conn := a.ask(b)
		n.run(20 * time.Millisecond)
		n.do(conn.SendDREQ(n.now, nil))
		n.finish()
		return n.log.String()
	}
	without := onlyCM(4)
	without.Without[nasty.CM] = true
	plain := run(nasty.Config{})
	if run(without) != plain {
		t.Error("without=cm changes what is sent")
	}
	if first := run(onlyCM(4)); first == plain || first != run(onlyCM(4)) {
		t.Error("seed 4 changes nothing, or two runs of it differ")
	}
}

// TestK2_LateMessagesAreBounded fills the queue of late messages: with the next one, all are sent, in
// their order. SendLate sends all, too.
func TestK2_LateMessagesAreBounded(t *testing.T) {
	var q Late
	var sent []clock.Instant
	put := func(due clock.Instant) {
		q.postpone(0, lateMessage{due, gsi.Address{}, new(mad.MAD), func(now clock.Instant, _ gsi.Address, _ *mad.MAD) { sent = append(sent, due) }})
	}
	for i := range maxLate {
		put(clock.Instant(maxLate - i))
	}
	if len(sent) != 0 || q.lateDue() != 1 {
		t.Fatalf("%d of %d messages were sent, the first of the others is due at %v", len(sent), maxLate, q.lateDue())
	}
	if put(maxLate + 1); len(sent) != maxLate+1 || !slices.IsSorted(sent) || q.lateDue() != clock.Never {
		t.Errorf("at the bound %d messages were sent, in order: %v", len(sent), slices.IsSorted(sent))
	}
	sent = nil
	put(7)
	put(5)
	if q.sendLate(6, 6); len(sent) != 1 {
		t.Errorf("%d messages were due", len(sent))
	}
	if q.SendLate(6); len(sent) != 2 || !slices.IsSorted(sent) || q.lateDue() != clock.Never {
		t.Errorf("%d messages were sent, in order: %v", len(sent), slices.IsSorted(sent))
	}
}
