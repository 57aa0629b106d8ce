package udp_test

import (
	"bytes"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/roce"
)

// wide is a batch that makes runs regardless of the port's capabilities.
func wide(size int) *fabric.Batch {
	return fabric.NewBatch(size, fabric.Caps{MaxSegments: 64, MaxRunBytes: 65507})
}

// check compares what arrived with what was sent, in order. The
// identification that each ICRC asks for must be the one that id returns.
func check(t *testing.T, ws []want, gs []got, id func(w *want) int) {
	t.Helper()
	for i := range ws {
		w, g := &ws[i], &gs[i]
		body := len(w.bytes) - roce.ICRCLen
		if len(g.bytes) != len(w.bytes) || !bytes.Equal(g.bytes[:body], w.bytes[:body]) {
			t.Fatalf("segment %d: %d bytes arrived otherwise than the %d sent", i, len(g.bytes), len(w.bytes))
		}
		have, ok := roce.DeriveID(g.bytes, prefix(&w.path, len(g.bytes)), 0)
		if !ok || int(have) != id(w) {
			t.Errorf("segment %d (%d of its run): its ICRC is for identification %d (%t), not %d", i, w.index, have, ok, id(w))
		}
		if g.d.Src != w.path.Src || g.d.Dst != w.path.Dst || g.d.SrcPort != fabric.RoCEPort || g.d.DstPort != fabric.RoCEPort {
			t.Errorf("segment %d: came from %v:%d to %v:%d", i, g.d.Src, g.d.SrcPort, g.d.Dst, g.d.DstPort)
		}
		if g.d.IDKnown {
			t.Errorf("segment %d: a UDP socket cannot know the identification", i)
		}
	}
}

func ownIndex(w *want) int { return w.index }
func zero(*want) int       { return 0 }

func TestRunsOfMixedSizesArriveWhole(t *testing.T) {
	a, b := open(t, udp.Config{}), open(t, udp.Config{})
	batch := fabric.NewBatch(1<<20, a.Caps())
	p := path(a, b)
	ws := fill(t, batch,
		group{path: p, size: 4112, count: 8, last: 60},
		group{path: p, size: 96, count: 40},
		group{path: p, size: 16, count: 1},
		group{path: p, size: 1040, count: 3, last: 20},
	)
	sendAll(t, a, batch)
	check(t, ws, collect(t, b, len(ws)), ownIndex)
	if n := a.Stats().SentPackets; n != uint64(len(ws)) {
		t.Errorf("%d packets counted as sent, not %d", n, len(ws))
	}
	if n := b.Stats().ReceivedPackets; n != uint64(len(ws)) {
		t.Errorf("%d packets counted as received, not %d", n, len(ws))
	}
	if a.Stats().SentBytes != b.Stats().ReceivedBytes {
		t.Errorf("%d bytes sent, %d received", a.Stats().SentBytes, b.Stats().ReceivedBytes)
	}
}

// A port without offload gets runs when its batch was made for another: it
// must send them in parts, each with the ICRC for identification 0.
func TestRunsWithoutOffloadHaveTheICRCOfIdentificationZero(t *testing.T) {
	a := open(t, udp.Config{GSO: udp.GSOOff})
	b := open(t, udp.Config{DisableGRO: true})
	if n := a.Caps().MaxSegments; n != 1 {
		t.Fatalf("a port with offload off takes runs of %d", n)
	}
	if b.Caps().GRO {
		t.Fatal("a port with GRO disabled says that it merges")
	}
	batch := wide(1 << 20)
	p := path(a, b)
	ws := fill(t, batch,
		group{path: p, size: 1040, count: 40, last: 32},
		group{path: p, size: 64, count: 1},
		group{path: p, size: 128, count: 2},
	)
	sendAll(t, a, batch)
	gs := collect(t, b, len(ws))
	check(t, ws, gs, zero)
	for i := range gs {
		if gs[i].d.Stride != 0 {
			t.Fatalf("segment %d came merged though GRO is off", i)
		}
	}
}

func TestWhatCannotBeSentIsCountedAndDropped(t *testing.T) {
	a, b := open(t, udp.Config{}), open(t, udp.Config{})
	good := path(a, b)
	foreign := good
	foreign.Src = netip.MustParseAddr("192.0.2.9")
	mixed := good
	mixed.Dst = netip.IPv6Loopback()
	batch := wide(1 << 20)
	var ws []want
	for _, g := range []group{
		{path: good, size: 64, count: 1},
		{path: foreign, size: 64, count: 2},
		{path: good, size: 65528, count: 1}, // beyond what UDP carries
		{path: mixed, size: 64, count: 1},
		{path: good, size: 68, count: 1},
	} {
		made := fill(t, batch, g)
		if g.path == good && g.size < 100 {
			ws = append(ws, made...)
		}
	}
	must.Do(t, a.Send(batch))
	if len(batch.Pending()) != 0 {
		t.Fatalf("%d runs are left in the batch", len(batch.Pending()))
	}
	check(t, ws, collect(t, b, 2), zero)
	if s := a.Stats(); s.SendErrors != 4 || s.SentPackets != 2 {
		t.Errorf("%d packets refused and %d sent, not 4 and 2", s.SendErrors, s.SentPackets)
	}
}

func TestPortOfSeveralAddresses(t *testing.T) {
	peer := open(t, udp.Config{})
	first, second := open(t, udp.Config{}), open(t, udp.Config{})
	addrs := []netip.Addr{first.Caps().Addrs[0], second.Caps().Addrs[0]}
	must.Do(t, errors.Join(first.Close(), second.Close()))
	p, err := udp.Open(udp.Config{Addrs: addrs})
	must.Do(t, err)
	t.Cleanup(func() { _ = p.Close() })
	seen := map[netip.Addr]int{}
	batch := fabric.NewBatch(1<<16, peer.Caps())
	for i := range 20 {
		to := path(peer, p)
		to.Dst = addrs[i%2]
		fill(t, batch, group{path: to, size: 64, count: 1})
	}
	sendAll(t, peer, batch)
	for _, g := range collect(t, p, 20) {
		seen[g.d.Dst]++
	}
	if seen[addrs[0]] != 10 || seen[addrs[1]] != 10 {
		t.Errorf("arrived per address: %v, not 10 each", seen)
	}
	for _, a := range addrs {
		fill(t, batch, group{path: fabric.Path{Src: a, Dst: peer.Caps().Addrs[0], HopLimit: 64}, size: 64, count: 1})
	}
	sendAll(t, p, batch)
	gs := collect(t, peer, 2)
	if gs[0].d.Src == gs[1].d.Src {
		t.Errorf("both packets came from %v: the second address does not send", gs[0].d.Src)
	}
}

func TestOpenExplainsWhatIsWrong(t *testing.T) {
	p := open(t, udp.Config{})
	tests := []struct {
		name  string
		addrs []netip.Addr
		says  string
	}{
		{"none", nil, "no address"},
		{"unspecified", []netip.Addr{netip.IPv4Unspecified()}, "not the address of an interface"},
		{"multicast", []netip.Addr{netip.MustParseAddr("224.0.0.1")}, "not the address of an interface"},
		{"twice", []netip.Addr{netip.MustParseAddr("127.0.0.9"), netip.MustParseAddr("127.0.0.9")}, "given twice"},
		{"foreign", []netip.Addr{netip.MustParseAddr("192.0.2.77")}, "no interface has address"},
		{"taken", p.Caps().Addrs, "choose another address"},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			_, err := udp.Open(udp.Config{Addrs: c.addrs})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("the error is %v: it should say %q", err, c.says)
			}
			if c.name == "taken" && !errors.Is(err, syscall.EADDRINUSE) {
				t.Errorf("the error %v does not unwrap to EADDRINUSE", err)
			}
		})
	}
}

func TestWakeEndsThePresentOrTheNextWait(t *testing.T) {
	p := open(t, udp.Config{})
	p.Wake()
	p.Wake()
	if err := p.Wait(-1, true, false); err != nil {
		t.Fatalf("a wait after Wake: %v", err)
	}
	begin := time.Now()
	must.Do(t, p.Wait(20*time.Millisecond, true, false))
	if d := time.Since(begin); d < 15*time.Millisecond {
		t.Errorf("a wait for 20 ms took %v: two Wakes must count as one", d)
	}
	var waker sync.WaitGroup
	for range 200 { // the race between going to sleep and being woken
		waker.Go(p.Wake)
		must.Do(t, p.Wait(-1, true, false))
		waker.Wait()
		must.Do(t, p.Wait(0, false, false)) // the wake may have come late
	}
}

func TestWaitMindsItsArguments(t *testing.T) {
	a, b := open(t, udp.Config{}), open(t, udp.Config{})
	batch := fabric.NewBatch(1<<12, a.Caps())
	fill(t, batch, group{path: path(a, b), size: 64, count: 1})
	sendAll(t, a, batch)
	must.Do(t, b.Wait(waitLimit, true, false)) // it has arrived
	begin := time.Now()
	must.Do(t, b.Wait(20*time.Millisecond, false, false))
	if d := time.Since(begin); d < 15*time.Millisecond {
		t.Errorf("a wait that does not read ended after %v because of an arrival", d)
	}
	begin = time.Now()
	must.Do(t, a.Wait(-1, true, true))
	if d := time.Since(begin); d > time.Second {
		t.Errorf("a wait for room that is there took %v", d)
	}
}

func TestCloseEndsEverything(t *testing.T) {
	p := open(t, udp.Config{})
	addr := p.Caps().Addrs[0]
	done := make(chan error, 1)
	go func() {
		for {
			if err := p.Wait(-1, true, false); err != nil {
				done <- err
				return
			}
		}
	}()
	must.Do(t, p.Close())
	if err := <-done; !errors.Is(err, fabric.ErrClosed) {
		t.Errorf("the wait ended with %v", err)
	}
	if _, err := p.Receive(make([]fabric.Datagram, 1)); !errors.Is(err, fabric.ErrClosed) {
		t.Errorf("receive after close: %v", err)
	}
	must.Fail(t, p.Send(fabric.NewBatch(64, p.Caps())), fabric.ErrClosed, "send after close")
	must.Fail(t, p.Close(), fabric.ErrClosed, "second close")
	p.Wake()
	again, err := udp.Open(udp.Config{Addrs: []netip.Addr{addr}})
	if err != nil {
		t.Fatalf("the address is not free after Close: %v", err)
	}
	must.Do(t, again.Close())
}

// Close may come at any moment, also within system calls.
func TestCloseDuringTraffic(t *testing.T) {
	for range 20 {
		a, b := open(t, udp.Config{}), open(t, udp.Config{})
		p := path(a, b)
		var wg sync.WaitGroup
		wg.Go(func() {
			batch := wide(1 << 14)
			for {
				if seg, index := batch.Append(&p, 96); seg != nil {
					seal(seg, &p, index, 0)
				}
				if err := a.Send(batch); errors.Is(err, fabric.ErrClosed) {
					return
				}
			}
		})
		wg.Go(func() {
			ds := make([]fabric.Datagram, 8)
			for {
				if _, err := b.Receive(ds); errors.Is(err, fabric.ErrClosed) {
					return
				}
			}
		})
		wg.Go(func() {
			for b.Wait(-1, true, false) == nil {
			}
		})
		collectAtLeastOne(b)
		b.Wake()
		must.Do(t, errors.Join(a.Close(), b.Close()))
		wg.Wait()
	}
}

// collectAtLeastOne returns when traffic flows.
func collectAtLeastOne(p fabric.Port) {
	for p.Stats().ReceivedPackets == 0 {
		p.Wake()
	}
}
