package pipe_test

import (
	"bytes"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/pipe"
	"github.com/softhca/softhca/internal/must"
)

func attach(t testing.TB, n *pipe.Network, addrs ...string) *pipe.Port {
	t.Helper()
	var list []netip.Addr
	for _, s := range addrs {
		list = append(list, netip.MustParseAddr(s))
	}
	p, err := n.Port(list...)
	must.Do(t, err)
	return p
}

func path(from, to *pipe.Port) fabric.Path {
	return fabric.Path{Src: from.Caps().Addrs[0], Dst: to.Caps().Addrs[0], SrcPort: 0xC123, TClass: 6, HopLimit: 9, FlowLabel: 77}
}

// put appends count segments of size bytes, each filled with its number.
func put(t testing.TB, b *fabric.Batch, p fabric.Path, size, count int) {
	t.Helper()
	for i := range count {
		seg, _ := b.Append(&p, size)
		if seg == nil {
			t.Fatal("the batch is full")
		}
		for k := range seg {
			seg[k] = byte(i)
		}
	}
}

func TestRunsArriveWhole(t *testing.T) {
	n := pipe.NewNetwork(pipe.Options{})
	a, b := attach(t, n, "10.0.0.1", "fd00::1"), attach(t, n, "10.0.0.2", "fd00::2")
	batch := fabric.NewBatch(1<<16, a.Caps())
	v4 := path(a, b)
	v6 := v4
	v6.Src, v6.Dst = a.Caps().Addrs[1], b.Caps().Addrs[1]
	put(t, batch, v4, 100, 5)
	put(t, batch, v6, 64, 1)
	must.Do(t, a.Send(batch))
	ds := make([]fabric.Datagram, 1)
	for _, want := range []struct {
		path          fabric.Path
		size, count   int
		stride, bytes int
	}{{v4, 100, 5, 100, 500}, {v6, 64, 1, 0, 64}} {
		if k, err := b.Receive(ds); k != 1 || err != nil {
			t.Fatalf("received %d, %v", k, err)
		}
		d := &ds[0]
		if d.Stride != want.stride || len(d.Bytes) != want.bytes || d.ID != 0 || !d.IDKnown {
			t.Errorf("stride %d, %d bytes, ID %d (known %t)", d.Stride, len(d.Bytes), d.ID, d.IDKnown)
		}
		if d.Src != want.path.Src || d.Dst != want.path.Dst || d.SrcPort != 0xC123 || d.DstPort != fabric.RoCEPort ||
			d.TClass != 6 || d.HopLimit != 9 || d.FlowLabel != 77 {
			t.Errorf("sent on %+v, arrived as %+v", want.path, d)
		}
		i := 0
		for off := 0; off < len(d.Bytes); i++ {
			var seg []byte
			seg, off = d.Segment(off)
			if !bytes.Equal(seg, bytes.Repeat([]byte{byte(i)}, want.size)) {
				t.Errorf("segment %d arrived otherwise than it was sent", i)
			}
		}
	}
	if s := b.Stats(); s.ReceivedPackets != 6 || s.ReceivedBytes != 564 || a.Stats().SentPackets != 6 {
		t.Errorf("counts: %+v and %+v", a.Stats(), s)
	}
}

// Received datagrams stay unchanged until the next Receive, even if others
// arrive.
func TestReceivedBytesStayUntilTheNextReceive(t *testing.T) {
	n := pipe.NewNetwork(pipe.Options{})
	a, b := attach(t, n, "10.0.0.1"), attach(t, n, "10.0.0.2")
	batch := fabric.NewBatch(1<<16, a.Caps())
	send := func(size, count int) {
		put(t, batch, path(a, b), size, count)
		must.Do(t, a.Send(batch))
	}
	send(100, 2)
	ds := make([]fabric.Datagram, 4)
	if k, err := b.Receive(ds); k != 1 || err != nil {
		t.Fatal(k, err)
	}
	before := bytes.Clone(ds[0].Bytes)
	for range 50 {
		send(1000, 10)
	}
	if !bytes.Equal(before, ds[0].Bytes) {
		t.Error("an arrival changed bytes that were received")
	}
}

func TestAFullQueueDropsAndCounts(t *testing.T) {
	n := pipe.NewNetwork(pipe.Options{QueueBytes: 4096})
	a, b := attach(t, n, "10.0.0.1"), attach(t, n, "10.0.0.2")
	ds := make([]fabric.Datagram, 64)
	batch := fabric.NewBatch(1<<16, a.Caps())
	for range 3 { // room that was used must come back
		before := b.Stats().Overflows
		for range 10 {
			put(t, batch, path(a, b), 1000, 1)
			must.Do(t, a.Send(batch))
		}
		k, err := b.Receive(ds)
		if k != 3 || err != nil {
			t.Fatalf("%d datagrams of 1000 bytes fitted 4096, %v", k, err)
		}
		if n := b.Stats().Overflows - before; n != 7 {
			t.Errorf("%d overflows counted, not 7", n)
		}
	}
	small := pipe.NewNetwork(pipe.Options{QueueBytes: 4096, MaxSegments: 1})
	a, b = attach(t, small, "10.0.0.1"), attach(t, small, "10.0.0.2")
	batch = fabric.NewBatch(1<<16, a.Caps())
	put(t, batch, path(a, b), 1, 100)
	must.Do(t, a.Send(batch))
	if k, _ := b.Receive(make([]fabric.Datagram, 128)); k != 4096/65 {
		t.Errorf("%d datagrams of one byte wait in 4096 bytes: the bookkeeping must count", k)
	}
}

func TestWhatCannotBeSentIsCounted(t *testing.T) {
	n := pipe.NewNetwork(pipe.Options{MTU: 1000})
	a, b := attach(t, n, "10.0.0.1"), attach(t, n, "10.0.0.2")
	batch := fabric.NewBatch(1<<16, a.Caps())
	nobody, foreign := path(a, b), path(a, b)
	nobody.Dst = netip.MustParseAddr("10.0.0.9")
	foreign.Src = netip.MustParseAddr("10.0.0.9")
	put(t, batch, nobody, 64, 2)
	put(t, batch, foreign, 64, 3)
	put(t, batch, path(a, b), 1004, 4)
	must.Do(t, a.Send(batch))
	if s := a.Stats(); s.SendErrors != 9 || s.SentPackets != 0 {
		t.Errorf("%d refused and %d sent, not 9 and 0", s.SendErrors, s.SentPackets)
	}
}

func TestAddressesBelongToOnePort(t *testing.T) {
	n := pipe.NewNetwork(pipe.Options{})
	p := attach(t, n, "10.0.0.1")
	for _, addrs := range [][]netip.Addr{
		nil, {{}}, {netip.IPv4Unspecified()}, {netip.MustParseAddr("ff02::1")},
		{netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("10.0.0.5")},
		{netip.MustParseAddr("10.0.0.6"), netip.MustParseAddr("::ffff:10.0.0.1")},
	} {
		if _, err := n.Port(addrs...); err == nil {
			t.Errorf("a port with the addresses %v was made", addrs)
		}
	}
	attach(t, n, "10.0.0.5", "10.0.0.6") // a refused port holds no address
	must.Do(t, p.Close())
	attach(t, n, "10.0.0.1") // nor does a closed one
}

func TestWait(t *testing.T) {
	n := pipe.NewNetwork(pipe.Options{})
	a, b := attach(t, n, "10.0.0.1"), attach(t, n, "10.0.0.2")
	batch := fabric.NewBatch(1<<12, a.Caps())
	short := func(what string, read bool) {
		t.Helper()
		begin := time.Now()
		must.Do(t, b.Wait(20*time.Millisecond, read, false))
		if d := time.Since(begin); d < 15*time.Millisecond {
			t.Errorf("%s: a wait for 20 ms took %v", what, d)
		}
	}
	short("nothing happened", true)
	b.Wake()
	must.Do(t, b.Wait(-1, true, false))
	short("a wake is over", true)
	put(t, batch, path(a, b), 64, 1)
	must.Do(t, a.Send(batch))
	short("an arrival of no interest", false)
	must.Do(t, b.Wait(-1, true, false))
	if k, err := b.Receive(make([]fabric.Datagram, 2)); k != 1 || err != nil {
		t.Fatal(k, err)
	}
	short("everything was received", true)
	must.Do(t, b.Wait(-1, false, true)) // there is always room
}

func TestCloseEndsEverything(t *testing.T) {
	p := attach(t, pipe.NewNetwork(pipe.Options{}), "10.0.0.1")
	done := make(chan error, 1)
	go func() { done <- p.Wait(-1, true, false) }()
	must.Do(t, p.Close())
	if err := <-done; !errors.Is(err, fabric.ErrClosed) {
		t.Errorf("the wait ended with %v", err)
	}
	if _, err := p.Receive(nil); !errors.Is(err, fabric.ErrClosed) {
		t.Errorf("receive: %v", err)
	}
	must.Fail(t, p.Send(fabric.NewBatch(64, p.Caps())), fabric.ErrClosed, "send")
	must.Fail(t, p.Close(), fabric.ErrClosed, "second close")
}

// Many ports send to a waiting port: no packet is lost, and no wait is too long.
func TestConcurrentSenders(t *testing.T) {
	const senders, rounds = 4, 500
	n := pipe.NewNetwork(pipe.Options{QueueBytes: senders * rounds * 200})
	to := attach(t, n, "10.0.0.1")
	var wg sync.WaitGroup
	for i := range senders {
		from := attach(t, n, netip.AddrFrom4([4]byte{10, 0, 1, byte(i)}).String())
		wg.Go(func() {
			batch := fabric.NewBatch(1<<12, from.Caps())
			for range rounds {
				p := path(from, to)
				batch.Append(&p, 64)
				if err := from.Send(batch); err != nil {
					t.Error(err)
				}
			}
		})
	}
	ds := make([]fabric.Datagram, 8)
	for seen := 0; seen < senders*rounds; {
		must.Do(t, to.Wait(-1, true, false))
		k, err := to.Receive(ds)
		must.Do(t, err)
		seen += k
	}
	wg.Wait()
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	n := pipe.NewNetwork(pipe.Options{})
	a, b := attach(t, n, "10.0.0.1"), attach(t, n, "10.0.0.2")
	batch := fabric.NewBatch(1<<16, a.Caps())
	ds := make([]fabric.Datagram, 16)
	round := func() {
		put(t, batch, path(a, b), 1000, 20)
		must.Do(t, a.Send(batch))
		must.Do(t, b.Wait(time.Second, true, false))
		if k, err := b.Receive(ds); k != 1 || err != nil {
			t.Fatal(k, err)
		}
	}
	round() // the halves of the queue take their size
	if avg := testing.AllocsPerRun(200, round); avg != 0 {
		t.Errorf("%v allocations per round of Send, Wait and Receive", avg)
	}
}

func BenchmarkSendReceive(b *testing.B) {
	n := pipe.NewNetwork(pipe.Options{})
	from, to := attach(b, n, "10.0.0.1"), attach(b, n, "10.0.0.2")
	batch := fabric.NewBatch(1<<17, from.Caps())
	ds := make([]fabric.Datagram, 16)
	p := path(from, to)
	b.SetBytes(15 * 4112)
	for b.Loop() {
		for range 15 {
			batch.Append(&p, 4112)
		}
		must.Do(b, from.Send(batch))
		if k, err := to.Receive(ds); k != 1 || err != nil {
			b.Fatal(k, err)
		}
	}
}
