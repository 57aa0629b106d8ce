package device

import (
	"errors"
	"testing"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/must"
)

// TestNothingIsDoneWithWhatIsGone shows that a call whose object was removed
// before its turn does nothing and returns an error.
func TestNothingIsDoneWithWhatIsGone(t *testing.T) {
	d := open(t, Config{})
	invalid, busy := errors.New("destroyed"), errors.New("busy")
	o := new(Object)
	done := 0
	work := func(clock.Instant) error { done++; return nil }
	err := d.Control(func(clock.Instant) (err error) {
		o.CQ, err = d.HCA.CreateCQ(1, nil)
		d.Add(o)
		return err
	})
	must.Do(t, err)
	remove := func(end func() error) error {
		return d.Control(func(clock.Instant) error { return o.Remove(end) })
	}
	if err := remove(func() error { return busy }); !errors.Is(err, busy) || o.Gone() {
		t.Errorf("removing what does not end: %v; gone: %t", err, o.Gone())
	}
	if err := o.Do(invalid, work); err != nil || done != 1 {
		t.Errorf("a call that finds its object: %v, done %d times", err, done)
	}
	must.Do(t, remove(func() error { return d.HCA.CQs().Destroy(o.CQ) }))
	var none *Object
	for what, o := range map[string]*Object{"an object that is gone": o, "no object": none} {
		for call, err := range map[string]error{
			"Do": o.Do(invalid, work), "Control": o.Control(invalid, work), "Manage": o.Manage("DestroyCQ", invalid, work), "Call": o.Call("DestroyCQ", invalid, work), "Called": o.Called("DestroyCQ", invalid), "Usable": o.Usable(invalid),
		} {
			if !errors.Is(err, invalid) {
				t.Errorf("%s of %s returns %v", call, what, err)
			}
		}
	}
	if done != 1 {
		t.Errorf("done %d times, want 1", done)
	}
}
