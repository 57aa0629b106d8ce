package fault

import (
	"errors"
	"testing"

	"github.com/softhca/softhca/internal/fabric"
)

// narrow is a port that takes room runs and is then full until it gets more.
type narrow struct {
	fabric.Port
	room int
}

// Send implements fabric.Port.
func (p *narrow) Send(b *fabric.Batch) error {
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
		other := x.dst.Next() // nobody's, so that the runs stay apart
		x.fill(x.src, other, 1)
		x.next--
		x.fill(x.src, x.dst, 2)
		blocked := 0
		step := func() {
			door.room = 1
			err := x.port.Send(x.batch)
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
