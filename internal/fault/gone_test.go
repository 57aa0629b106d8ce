package fault

import (
	"errors"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/must"
)

// TestGone makes the adapter fail when it sends a packet, or receives one: from then on nothing passes in either direction.
func TestGone(t *testing.T) {
	for _, dir := range []string{"out", "in"} {
		x := newBench(t, "gone op=SEND nth=3 dir="+dir, false)
		from, to := fabric.Port(x.port), x.far
		src, dst := x.src, x.dst
		if dir == "in" {
			from, to, src, dst = to, from, dst, src
		}
		ds := make([]fabric.Datagram, 8)
		pass := func(n int) (received int, err error) {
			x.fill(src, dst, n)
			err = from.Send(x.batch)
			x.batch.Reset()
			received, err2 := to.Receive(ds)
			return received, errors.Join(err, err2)
		}
		n, err := pass(2)
		if must.Do(t, err); n == 0 {
			t.Errorf("%s: nothing passes before", dir)
		}
		for range 2 {
			if n, err := pass(2); n != 0 || !errors.Is(err, ib.EIO) {
				t.Errorf("%s: %d datagrams pass, %v", dir, n, err)
			}
		}
		x.fill(x.src, x.dst, 1)
		if err := x.port.Send(x.batch); !errors.Is(err, ib.EIO) {
			t.Errorf("%s: sending afterwards: %v", dir, err)
		}
		x.batch.Reset()
		x.fill(x.dst, x.src, 1)
		must.Do(t, x.far.Send(x.batch))
		if n, err := x.port.Receive(ds); n != 0 || !errors.Is(err, ib.EIO) {
			t.Errorf("%s: receiving afterwards: %d datagrams, %v", dir, n, err)
		}
	}
}
