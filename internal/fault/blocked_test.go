package fault

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/must"
)

// narrow is a port that takes room runs and is then full until it gets more.
type narrow struct {
	fabric.Port
	room int
	now  clock.Instant // of the last batch
}

// Send implements fabric.Port.
func (p *narrow) Send(b *fabric.Batch) error {
	p.now = b.Now
	for _, r := range b.Pending() {
		if p.room == 0 {
			return fabric.ErrBlocked
		}
		p.room--
		one := fabric.NewBatch(len(r.Bytes), p.Caps())
		for i := range r.Count {
			seg, _ := one.Append(&r.Path, len(r.Segment(i)))
			copy(seg, r.Segment(i))
		}
		if err := p.Port.Send(one); err != nil {
			return err
		}
		b.Sent(1)
	}
	return nil
}

// TestBlocked sends through a port that is full at times: no packet is lost or
// judged twice, whether the rules changed something or not.
func TestBlocked(t *testing.T) {
	for _, c := range []struct{ rule, want string }{
		{"drop every=6 dst=10.0.0.2", "0 1 2 3 4 6 7"}, // comes while the port is full
		{"drop every=10 dst=10.0.0.2", "0 1 2 3 4 5 6 7"},
		{"drop nth=2", "0 2 3 4 5 6 7"},
		{"dup nth=2", "0 1 1 2 3 4 5 6 7"},
	} {
		x := newBench(t, c.rule, false)
		door := &narrow{Port: x.port.Port}
		x.port.Port = door
		x.fill(x.src, x.dst, 2)
		other := x.dst.Next() // no queue pair's, so that the runs stay separate
		x.fill(x.src, other, 1)
		x.next--
		x.fill(x.src, x.dst, 2)
		blocked := 0
		step := func() {
			door.room = 1
			x.batch.Now++
			sends := len(x.batch.Pending()) > 0
			err := x.port.Send(x.batch)
			if sends && door.now != x.batch.Now {
				t.Fatalf("%s: the port gets a batch of %d, want %d", c.rule, door.now, x.batch.Now)
			}
			if errors.Is(err, fabric.ErrBlocked) {
				blocked++
			} else if err != nil {
				t.Fatal(err)
			}
		}
		step()
		x.fill(x.src, x.dst, 4) // the last run grows while it waits
		for range 10 {
			step()
			if _, err := x.port.Receive(nil); err != nil {
				t.Fatal(err)
			}
		}
		if got := x.arrived(x.far); got != c.want || len(x.batch.Pending()) != 0 {
			t.Errorf("%s: %q arrives, want %q", c.rule, got, c.want)
		}
		if blocked == 0 {
			t.Errorf("%s: the port was never full", c.rule)
		}
		if s := x.port.rules[0].Stat(); !x.port.rules[0].once && s.Matched != 8 {
			t.Errorf("%s: %d packets were judged, not 8", c.rule, s.Matched)
		}
	}
}

// TestBlockedWhenDue has more packets come due while the port is full than
// there is room for: they stay held back, and a Wait for the port does not end
// at once for what is due.
func TestBlockedWhenDue(t *testing.T) {
	x := newBench(t, "delay 1ms dst=10.0.0.2", false)
	const each = 250
	for i := range each {
		x.fill(x.src, x.dst, 1)
		if i%64 == 63 || i == each-1 {
			must.Do(t, x.port.Send(x.batch))
		}
	}
	for i, e := range x.port.leave.heap.All() {
		e.path.FlowLabel = uint32(i) // none can join the run before it
	}
	door := &narrow{Port: x.port.Port}
	x.port.Port = door
	x.now = x.now.Add(time.Second)
	if _, err := x.port.Receive(nil); err != nil {
		t.Fatal(err)
	}
	if n := x.port.leave.heap.Len(); n == 0 || !x.port.stuck.Load() || clock.Instant(x.port.due.Load()) != clock.Never {
		t.Errorf("%d packets are held back of a port that is full; it is stuck: %v, and the next is due at %v",
			n, x.port.stuck.Load(), x.port.due.Load())
	}
	door.room = each
	if _, err := x.port.Receive(nil); err != nil {
		t.Fatal(err)
	}
	if got := len(strings.Fields(x.arrived(x.far))); got != each || x.port.Stats().SendErrors != 0 {
		t.Errorf("%d packets arrive and %d found no room, want all %d", got, x.port.Stats().SendErrors, each)
	}
}

// TestWaitForTheRest receives fewer datagrams than the rules have made of what
// arrived: a Wait ends at once until all are received.
func TestWaitForTheRest(t *testing.T) {
	x := newBench(t, "dup dir=in", false)
	x.in(2)
	one := make([]fabric.Datagram, 1)
	for left := 3; left >= 0; left-- {
		if n, err := x.port.Receive(one); n != 1 || err != nil {
			t.Fatalf("%d datagrams, %v", n, err)
		}
		if due := clock.Instant(x.port.due.Load()); (due == 0) != (left > 0) {
			t.Errorf("with %d datagrams left the next is due at %v", left, due)
		}
		if left > 0 {
			begin := time.Now()
			if err := x.port.Wait(10*time.Second, true, false); err != nil || time.Since(begin) > 5*time.Second {
				t.Errorf("with %d datagrams left a wait takes %v, %v", left, time.Since(begin), err)
			}
		}
	}
}

// TestMoreThanThereIsRoomFor has rules make more of a batch than is held while the
// port is full: what finds no room is lost, and counted as refused.
func TestMoreThanThereIsRoomFor(t *testing.T) {
	const packets = 200
	x := newBench(t, strings.Repeat("dup;", MaxRules-1)+"dup", false)
	x.port.Port = &narrow{Port: x.port.Port}
	x.out(packets)
	held := 0
	for _, r := range x.port.out.Pending() {
		held += r.Count
	}
	const made = packets * (1 + MaxRules)
	if lost := x.port.Stats().SendErrors; held == 0 || held == made || lost != uint64(made-held) {
		t.Errorf("of %d packets %d are held until the port has room, and %d are counted as refused", made, held, lost)
	}
}
