//go:build !portable

package near

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/near/meeting"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/roce"
)

// big is the size of packets whose runs are built in the ring.
const big = 2 * leastLent

// write appends a packet with a number, whose other bytes follow from it, and reports whether there
// was room.
func (e *end) write(size, number int) bool {
	e.batch.Aim(slotQPN(0))
	seg, _ := e.batch.Append(&e.path, size)
	if seg == nil {
		return false
	}
	fill(seg, number)
	return true
}

// headLen are the first bytes of a packet of fill: the destination, and the number.
const headLen = 16

func fill(seg []byte, number int) {
	for i := range seg {
		seg[i] = byte(number + i)
	}
	binary.BigEndian.PutUint32(seg[4:], uint32(slotQPN(0)))
	binary.BigEndian.PutUint32(seg[12:], uint32(number))
}

// checkFill returns the number of a packet, -1 if its bytes, without an ICRC, do not follow from it.
func checkFill(seg []byte) int {
	number := int(binary.BigEndian.Uint32(seg[12:]))
	for i := headLen; i < len(seg)-roce.ICRCLen; i++ {
		if seg[i] != byte(number+i) {
			return -1
		}
	}
	return number
}

// reads receives count packets of write, which must be numbered from first on.
func (e *end) reads(t testing.TB, first, count int) {
	t.Helper()
	ds := make([]fabric.Datagram, inboxLen)
	for got := 0; got < count; {
		for _, d := range e.next(t, ds) {
			got += walk(t, &d, first+got)
		}
	}
}

// walk checks the packets of a datagram, which must be numbered from first on, and returns their number.
func walk(t testing.TB, d *fabric.Datagram, first int) (n int) {
	t.Helper()
	for off := 0; off < len(d.Bytes); n++ {
		var seg []byte
		seg, off = d.Segment(off)
		if number := checkFill(seg); number != first+n {
			t.Fatalf("packet %d arrives, want %d (-1: damaged)", number, first+n)
		}
	}
	return n
}

// lentRuns returns the number of pending runs in lent memory.
func (e *end) lentRuns() (n int) {
	for _, r := range e.batch.Pending() {
		if r.Lent {
			n++
		}
	}
	return n
}

// writes appends big packets.
func (e *end) writes(t testing.TB, first, count int) {
	t.Helper()
	for i := range count {
		if !e.write(big, first+i) {
			t.Fatal("the batch is too small for the test")
		}
	}
}

// Runs of large packets are built in the ring, one after the other, until a run of small ones: it and
// the runs after it are copied, and arrive in order.
func TestRunsInTheRing(t *testing.T) {
	x, y := met(t, open(t, Config{}), open(t, Config{}))
	x.writes(t, 0, 100) // more than a run
	x.write(64, 100)    // ends a run
	x.write(64, 101)    // a run of its own
	x.writes(t, 102, 10)
	x.writes(t, 112, 1)
	x.batch.Unappend()
	runs := x.batch.Pending()
	if len(runs) != 4 || x.lentRuns() != 2 || runs[2].Lent || runs[3].Lent {
		t.Fatalf("%d of %d runs are in the ring, want the first 2 of 4", x.lentRuns(), len(runs))
	}
	if runs[2].Place != 0 {
		t.Error("a small run takes a place in the ring")
	}
	before := x.routed().Out.Counts().Records
	var r [1]fabric.Datagram
	if n, err := y.Receive(r[:]); n != 0 {
		t.Fatalf("a run arrives before it is sent: %v", err)
	}
	must.Do(t, x.Send(x.batch))
	if n := x.routed().Out.Counts().Records - before; n != 4 {
		t.Errorf("%d records are committed, want 4", n)
	}
	y.reads(t, 0, 112)
}

// A batch that is abandoned leaves no trace in the ring.
func TestLentRunsAbandoned(t *testing.T) {
	x, y := met(t, open(t, Config{}), open(t, Config{}))
	for i := range 50 { // more than a ring holds
		x.writes(t, 1000+i, 40)
		x.batch.Reset()
		x.writes(t, i, 1)
		if x.lentRuns() != 1 {
			t.Fatal("nothing is lent after a batch was abandoned")
		}
		must.Do(t, x.Send(x.batch))
		y.reads(t, i, 1)
	}
}

// If the peer leaves between the building of runs and Send, the runs take the network. The port can
// have closed its ring, which is unmapped, by then.
func TestPeerLeavesWithLentRuns(t *testing.T) {
	a, b := open(t, Config{}), open(t, Config{})
	x, y := met(t, a, b)
	x.writes(t, 0, 3)
	if x.lentRuns() != 1 {
		t.Fatal("nothing is lent")
	}
	a.unroute(x.routed())
	if x.lentRuns() != 0 {
		t.Error("the run is still in the ring of a peer to which nothing more is sent")
	}
	x.writes(t, 3, 1) // the run still grows
	must.Do(t, x.Send(x.batch))
	y.reads(t, 0, 4)

	x, _ = met(t, open(t, Config{}), b)
	x.writes(t, 0, 3)
	x.write(big/2, 3)
	must.Do(t, b.Close())
	x.awaitPeers(t, 0)
	x.settle(t)
	x.mu.Lock()
	if len(x.peers) != 0 {
		t.Fatal("the memory of the peer is still mapped")
	}
	x.mu.Unlock()
	r := x.batch.Pending()[0]
	for i := range r.Count {
		if checkFill(r.Segment(i)) != i {
			t.Errorf("packet %d is damaged", i)
		}
	}
	must.Do(t, x.Send(x.batch))
}

// A port that is closed leaves the runs to the batch.
func TestCloseWithLentRuns(t *testing.T) {
	x, _ := met(t, open(t, Config{}), open(t, Config{}))
	x.writes(t, 0, 3)
	must.Do(t, x.Close())
	x.writes(t, 3, 1)
	for i := range 4 {
		if checkFill(x.batch.Pending()[0].Segment(i)) != i {
			t.Errorf("packet %d is damaged", i)
		}
	}
}

// Runs in the ring of a process whose place another takes go to the ring of that one, in order.
func TestLentRunsToTheNext(t *testing.T) {
	for _, gone := range []bool{false, true} {
		lentRunsToTheNext(t, gone)
	}
}

// lentRunsToTheNext notices the end of the earlier process before, if gone is set.
func lentRunsToTheNext(t *testing.T, gone bool) {
	t.Helper()
	a, b := open(t, Config{}), open(t, Config{})
	x, y := met(t, a, b)
	old := x.routed()
	x.writes(t, 0, 70)
	old.gone.Store(gone)
	// The two meet again, as if the peer had forgotten this meeting.
	k := b.system.(*kernel)
	for end := time.Now().Add(waitLimit); x.routed() == old; pause(t, a) {
		k.Invite(y.path.Src, meeting.Key{Addr: x.path.Src})
		y.settle(t)
		a.mu.Lock()
		a.adopt()
		a.mu.Unlock()
		if time.Now().After(end) {
			t.Fatal("the ports do not meet again")
		}
	}
	if x.lentRuns() != 0 {
		t.Error("runs are still in the ring of the last meeting")
	}
	x.writes(t, 70, 30)
	if x.lentRuns() != 0 {
		t.Error("a run is in the ring before others that are not")
	}
	x.flush(t)
	y.reads(t, 0, 100)
}

// A full ring lends nothing. When the peer has read, everything arrives in order.
func TestFullRingLendsNothing(t *testing.T) {
	x, y := met(t, open(t, Config{}), open(t, Config{}))
	const room = ringSize/(big+1) - 2
	n := 0
	for ; n < room-20; n += 10 {
		x.writes(t, n, 10)
		must.Do(t, x.Send(x.batch))
	}
	x.writes(t, n, 70)
	runs := x.batch.Pending()
	if x.lentRuns() != 1 || !runs[0].Lent || runs[0].Count > 30 {
		t.Errorf("%d of %d runs are in a ring that is almost full, the first with %d packets", x.lentRuns(), len(runs), runs[0].Count)
	}
	must.Fail(t, x.Send(x.batch), fabric.ErrBlocked, "send")
	in := n + runs[0].Count // packets in the ring
	y.reads(t, 0, in)
	x.writes(t, n+70, 10) // after a run without a place in the ring
	if x.lentRuns() != 0 {
		t.Error("a run is in the ring before others that are not")
	}
	y.settle(t) // releases the room
	must.Do(t, x.Send(x.batch))
	x.writes(t, n+80, 10)
	if x.lentRuns() != 1 {
		t.Error("nothing is lent when there is room again")
	}
	must.Do(t, x.Send(x.batch))
	if err := x.Stats().Overflows; err != 0 {
		t.Fatalf("%d packets are lost", err)
	}
	y.reads(t, in, n+90-in)
}

// Two peers get their runs in turn, beside the network.
func TestLentToTwoPeers(t *testing.T) {
	a, b, c := open(t, Config{}), open(t, Config{}), open(t, Config{})
	x, y := met(t, a, b)
	z, w := met(t, a, c)
	const ahead = 100 // packets to one of the two that it reads later
	z.writes(t, 0, ahead)
	must.Do(t, z.Send(z.batch))
	z.batch = x.batch
	for round := range 20 {
		for i := range 10 {
			x.writes(t, 20*round+2*i, 2)
			z.writes(t, ahead+20*round+2*i, 2)
		}
		if n := x.lentRuns(); n != 20 {
			t.Fatalf("%d of 20 runs are in rings", n)
		}
		must.Do(t, x.Send(x.batch))
		y.reads(t, 20*round, 20)
		if round == 0 {
			w.reads(t, 0, ahead+20)
		} else {
			w.reads(t, ahead+20*round, 20)
		}
	}
}

// A port does not look for an earlier run among too many. It builds no run before it in the ring.
func TestRunsFarApart(t *testing.T) {
	x, y := met(t, open(t, Config{}), open(t, Config{}))
	for _, between := range []int{lookBack - 1, lookBack} {
		x.writes(t, 0, 1)
		for range between {
			x.batch.Aim(ib.QPNGSI)
			seg, _ := x.batch.Append(&x.path, 64)
			clear(seg)
			x.path.TClass ^= 4 // ends the run
		}
		x.writes(t, 1, 1)
		if got, want := x.lentRuns() == 2, between < lookBack; got != want {
			t.Errorf("%d runs to the network between two to a peer: the second is in the ring: %v", between, got)
		}
		must.Do(t, x.Send(x.batch))
		for got, ds := 0, make([]fabric.Datagram, inboxLen); got < 2; {
			for _, d := range y.next(t, ds) {
				if d.Bare {
					got += walk(t, &d, got)
				}
			}
		}
		y.settle(t)
	}
}

// Two batches of one port do not get the same memory, whichever is sent first.
func TestLentToTwoBatches(t *testing.T) {
	x, y := met(t, open(t, Config{}), open(t, Config{}))
	z := newEnd(x.Port, y.Port)
	n := 0
	for _, order := range [][2]*end{{x, z}, {z, x}} {
		x.writes(t, n+70*btoi(order[0] == z), 70)
		z.writes(t, n+70*btoi(order[0] == x), 70)
		must.Do(t, order[0].Send(order[0].batch))
		must.Do(t, order[1].Send(order[1].batch))
		y.reads(t, n, 140)
		n += 140
	}
	x.writes(t, n+3, 1)
	z.writes(t, n, 3)
	must.Do(t, z.Send(z.batch))
	x.write(big+1, n+4) // a run of its own, after one that has lost its place
	if x.lentRuns() != 0 {
		t.Error("a run is in the ring before others that are not")
	}
	must.Do(t, x.Send(x.batch))
	y.reads(t, n, 5)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestLentRunsAtRandom appends packets of random sizes, takes some back, abandons batches, sends, and
// receives slowly. All packets arrive in order, whole.
func TestLentRunsAtRandom(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	draw := rand.New(rand.NewPCG(seed, 0))
	x, y := met(t, open(t, Config{}), open(t, Config{}))
	x.system = stopped{x.system} // a full ring never loses packets
	sent, written, got, lent := 0, 0, 0, 0
	ds := make([]fabric.Datagram, 4)
	for steps := 0; steps < 6000; steps++ {
		switch draw.IntN(8) {
		case 0, 1, 2, 3:
			size := headLen + draw.IntN(3*leastLent/2)
			for range 1 + draw.IntN(70) {
				if !x.write(size, written) {
					break
				}
				if draw.IntN(20) == 0 {
					x.batch.Unappend()
					continue
				}
				written++
			}
		case 4:
			if draw.IntN(4) == 0 && written > sent {
				if x.batch.Reset(); sent < written {
					written = sent
				}
			}
		case 5:
			lent += x.lentRuns()
			switch err := x.Send(x.batch); {
			case err == nil:
				sent = written
			case errors.Is(err, fabric.ErrBlocked):
				sent = written // some are in the ring: the batch is not abandoned
				for len(x.batch.Pending()) > 0 {
					got += drain(t, y, ds, got)
					if err := x.Send(x.batch); err != nil {
						must.Fail(t, err, fabric.ErrBlocked, "send")
					}
				}
			default:
				t.Fatal(err)
			}
		default:
			got += drain(t, y, ds, got)
		}
	}
	x.flush(t)
	y.reads(t, got, written-got)
	if x.Stats().Overflows != 0 || lent < 100 {
		t.Errorf("%d packets are lost, %d runs were lent", x.Stats().Overflows, lent)
	}
}

// stopped is a system whose clock does not go on.
type stopped struct{ System }

func (stopped) Now() time.Time { return time.Unix(1, 0) }

// drain receives once, and returns the number of packets, numbered from first on.
func drain(t *testing.T, e *end, ds []fabric.Datagram, first int) (n int) {
	t.Helper()
	k, err := e.Receive(ds)
	must.Do(t, err)
	for i := range ds[:k] {
		n += walk(t, &ds[i], first+n)
	}
	return n
}
