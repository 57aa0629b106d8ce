//go:build linux

package raw_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/raw"
	"github.com/softhca/softhca/internal/fabric/sandbox"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/roce"
)

// check compares what arrived with what was sent, and the ICRC of each segment
// with the identification it came with.
func check(t *testing.T, p fabric.Path, segs [][]byte, gs []got) {
	t.Helper()
	for i := range segs {
		g := &gs[i]
		body := len(segs[i]) - roce.ICRCLen
		if len(g.bytes) != len(segs[i]) || !bytes.Equal(g.bytes[:body], segs[i][:body]) {
			t.Fatalf("segment %d: %d bytes arrived otherwise than the %d sent", i, len(g.bytes), len(segs[i]))
		}
		if !roce.Check(g.bytes, prefix(&p, len(g.bytes)).WithID(g.id)) {
			t.Errorf("segment %d: its ICRC is not that of identification %d, which it came with", i, g.id)
		}
		if d := &g.d; d.Src != p.Src || d.Dst != p.Dst || d.SrcPort != p.SrcPort || d.DstPort != fabric.RoCEPort ||
			d.TClass != p.TClass || d.HopLimit != p.HopLimit || d.FlowLabel != p.FlowLabel || !d.IDKnown {
			t.Errorf("segment %d: sent on %+v, arrived as %v:%d to %v:%d, class %#x, hop limit %d, flow %#x, ID known %t",
				i, p, d.Src, d.SrcPort, d.Dst, d.DstPort, d.TClass, d.HopLimit, d.FlowLabel, d.IDKnown)
		}
	}
}

func TestRawToRaw(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	a, b := openRaw(t, "127.1.0.1"), openRaw(t, "127.1.0.2")
	self := openRaw(t, "::1")
	if c := a.Caps(); c.Interface != "lo" || c.Verify != fabric.VerifyFull || c.SrcPort != 0 || c.MTU != 65507 || c.RecvBuffer == 0 {
		t.Errorf("caps %+v", c)
	}
	for _, c := range []struct {
		from, to *raw.Port
		path     fabric.Path
	}{
		{a, b, fabric.Path{SrcPort: 0xC132, TClass: 0x6A, HopLimit: 7}},
		{self, self, fabric.Path{SrcPort: 0xFFFF, TClass: 0xC2, HopLimit: 255, FlowLabel: 0xABCDE}},
	} {
		c.path.Src, c.path.Dst = c.from.Caps().Addrs[0], c.to.Caps().Addrs[0]
		t.Run(c.path.Src.String(), func(t *testing.T) {
			batch, segs := runs(t, c.path, [2]int{4112, 20}, [2]int{96, 45}, [2]int{20, 1}, [2]int{1040, 2})
			gs := transfer(t, c.from, c.to, batch, len(segs))
			check(t, c.path, segs, gs)
			for i := 1; c.path.Src.Is4() && i < len(gs); i++ {
				if gs[i].id != gs[i-1].id+1 || gs[i].id == 0 {
					t.Fatalf("identification %d after %d", gs[i].id, gs[i-1].id)
				}
			}
			if s := c.from.Stats(); s.SentPackets != uint64(len(segs)) {
				t.Errorf("%d packets counted as sent, not %d", s.SentPackets, len(segs))
			}
			if s := c.to.Stats(); s.ReceivedPackets != uint64(len(segs)) || s.Overflows != 0 || s.Truncated != 0 {
				t.Errorf("counts of the receiver: %+v, not %d packets", s, len(segs))
			}
		})
	}
}

// The identification wraps, and must pass over 0.
func TestIdentificationSkipsZero(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	a, b := openRaw(t, "127.1.0.1"), openRaw(t, "127.1.0.2")
	p := fabric.Path{Src: a.Caps().Addrs[0], Dst: b.Caps().Addrs[0], SrcPort: 0xC000, HopLimit: 64}
	var last uint16
	for sent := 0; sent < 1<<16+100; {
		batch, segs := runs(t, p, [2]int{20, 60})
		gs := transfer(t, a, b, batch, len(segs))
		check(t, p, segs, gs)
		for _, g := range gs {
			if want := max(last+1, 1); g.id != want {
				t.Fatalf("identification %d after %d", g.id, last)
			}
			last = g.id
		}
		sent += len(gs)
	}
}

// The raw port sees the identifications that the UDP port promises.
func TestRawSeesWhatTheUDPPortSends(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	for _, c := range [][2]string{{"127.1.0.1", "127.1.0.2"}, {"10.9.0.1", "127.1.0.2"}, {"10.9.0.1", "10.9.0.9"}} {
		t.Run(fmt.Sprintf("%s to %s", c[0], c[1]), func(t *testing.T) {
			if c[0][0] == '1' && c[0][1] == '0' {
				sandbox.Tap(t, "tap0", netip.MustParsePrefix("10.9.0.1/24"))
			}
			if c[1] == "10.9.0.9" {
				sandbox.Tap(t, "tap1", netip.MustParsePrefix("10.9.0.9/24"))
			}
			u, r := openUDP(t, c[0]), openRaw(t, c[1])
			p := fabric.Path{Src: u.Caps().Addrs[0], Dst: r.Caps().Addrs[0], SrcPort: fabric.RoCEPort, HopLimit: 64}
			batch, segs := runs(t, p, [2]int{1040, 50}, [2]int{96, 1}, [2]int{64, 3})
			gs := transfer(t, u, r, batch, len(segs))
			check(t, p, segs, gs)
			if gs[0].d.Stride != 1040 || gs[0].id != 0 || gs[49].id != 49 {
				t.Errorf("stride %d, identifications %d to %d: the run came otherwise than it was sent", gs[0].d.Stride, gs[0].id, gs[49].id)
			}
			back := fabric.Path{Src: p.Dst, Dst: p.Src, SrcPort: 0xC132, HopLimit: 64}
			batch, segs = runs(t, back, [2]int{1040, 20}, [2]int{96, 1})
			for i, g := range transfer(t, r, u, batch, len(segs)) {
				id, ok := roce.DeriveID(g.bytes, prefix(&back, len(g.bytes)), 0)
				if !ok || id != uint16(i+1) {
					t.Errorf("segment %d back: its ICRC is for identification %d (%t), not %d", i, id, ok, i+1)
				}
			}
		})
	}
}

func TestOnlyItsOwnPacketsArrive(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	r := openRaw(t, "127.1.0.2", "127.1.0.3", "::1")
	u, other := openUDP(t, "127.1.0.1"), openUDP(t, "127.1.0.4")
	stray := fabric.Path{Src: u.Caps().Addrs[0], Dst: other.Caps().Addrs[0], SrcPort: fabric.RoCEPort, HopLimit: 64}
	batch, segs := runs(t, stray, [2]int{64, 3})
	transfer(t, u, other, batch, len(segs)) // not for r
	dns(t)                                  // for its address, but not for its port
	own := stray
	own.Dst = r.Caps().Addrs[1]
	batch, segs = runs(t, own, [2]int{68, 2})
	check(t, own, segs, transfer(t, u, r, batch, len(segs)))
	if n := r.Stats().ReceivedPackets; n != 2 {
		t.Errorf("%d packets arrived, not the 2 that were for this port", n)
	}
}

// dns sends a packet from and to other ports.
func dns(t *testing.T) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	must.Do(t, err)
	defer func() { _ = unix.Close(fd) }()
	must.Do(t, unix.Sendto(fd, make([]byte, 40), 0, &unix.SockaddrInet4{Port: 53, Addr: [4]byte{127, 1, 0, 2}}))
}

// A connected socket would hear of "port unreachable".
func TestTheKernelDoesNotAnswerForThePort(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	r := openRaw(t, "127.1.0.2")
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	must.Do(t, err)
	defer func() { _ = unix.Close(fd) }()
	must.Do(t, unix.Connect(fd, &unix.SockaddrInet4{Port: fabric.RoCEPort, Addr: [4]byte{127, 1, 0, 2}}))
	for range 3 {
		if _, err := unix.Write(fd, make([]byte, 20)); err != nil {
			t.Fatalf("the sender was told: %v", err)
		}
	}
	must.Do(t, r.Wait(waitLimit, true, false))
	if n, err := r.Receive(make([]fabric.Datagram, 8)); n == 0 || err != nil {
		t.Errorf("received %d, %v: the port does not hear what it keeps from the kernel", n, err)
	}
}

func TestFullSendBufferKeepsTheRest(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	sandbox.Tap(t, "tap0", netip.MustParsePrefix("10.9.0.1/24"))
	r, err := raw.Open(raw.Config{Addrs: parse([]string{"10.9.0.1"}), SendBuffer: 20_000})
	must.Do(t, err)
	t.Cleanup(func() { _ = r.Close() })
	p := fabric.Path{Src: r.Caps().Addrs[0], Dst: netip.MustParseAddr("10.9.0.2"), SrcPort: 0xC000, HopLimit: 64}
	batch, segs := runs(t, p, [2]int{1400, 100}) // no ARP answer comes: they stay in the buffer
	if err := r.Send(batch); !errors.Is(err, fabric.ErrBlocked) {
		t.Fatalf("sending 140 kB into a 20 kB buffer: %v", err)
	}
	sent := int(r.Stats().SentPackets)
	at := sent
	for _, run := range batch.Pending() {
		for i := range run.Count {
			g := got{run.Segment(i), uint16(i), fabric.Datagram{
				Src: p.Src, Dst: p.Dst, SrcPort: p.SrcPort, DstPort: fabric.RoCEPort, HopLimit: 64, IDKnown: true,
			}}
			check(t, p, segs[at:at+1], []got{g})
			at++
		}
	}
	if sent == 0 || at != len(segs) {
		t.Errorf("%d packets sent and %d left of %d", sent, at-sent, len(segs))
	}
	begin := time.Now()
	must.Do(t, r.Wait(20*time.Millisecond, false, true))
	if d := time.Since(begin); d < 15*time.Millisecond {
		t.Errorf("the wait for room ended after %v though there is none", d)
	}
}

func TestWhatCannotBeSentIsCountedAndDropped(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	sandbox.Tap(t, "tap0", netip.MustParsePrefix("10.9.0.1/24"))
	r := openRaw(t, "10.9.0.1", "127.1.0.1")
	good := fabric.Path{Src: r.Caps().Addrs[1], Dst: r.Caps().Addrs[1], SrcPort: 0xC000, HopLimit: 64}
	foreign, large := good, good
	foreign.Src = netip.MustParseAddr("127.1.0.7")
	large.Src, large.Dst = r.Caps().Addrs[0], netip.MustParseAddr("10.9.0.2")
	for _, c := range []struct {
		path fabric.Path
		size int
		errs uint64
	}{{foreign, 64, 3}, {large, 1480, 3}, {good, 64, 0}} {
		before := r.Stats().SendErrors
		batch, segs := runs(t, c.path, [2]int{c.size, 3})
		if err := r.Send(batch); err != nil || len(batch.Pending()) != 0 {
			t.Fatalf("%v: %v, %d runs left", c.path, err, len(batch.Pending()))
		}
		if n := r.Stats().SendErrors - before; n != c.errs {
			t.Errorf("%d bytes on %v: %d refused, not %d", c.size, c.path, n, c.errs)
		}
		if c.errs == 0 {
			check(t, good, segs, transfer(t, r, r, batch, len(segs)))
		}
	}
}

func TestOverflowIsCounted(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	u := openUDP(t, "127.1.0.1")
	r, err := raw.Open(raw.Config{Addrs: parse([]string{"127.1.0.2"}), RecvBuffer: 8192})
	must.Do(t, err)
	t.Cleanup(func() { _ = r.Close() })
	p := fabric.Path{Src: u.Caps().Addrs[0], Dst: r.Caps().Addrs[0], SrcPort: fabric.RoCEPort, HopLimit: 64}
	sizes := make([][2]int, 40)
	for i := range sizes {
		sizes[i] = [2]int{1040 + 4*i, 1}
	}
	batch, _ := runs(t, p, sizes...)
	must.Do(t, u.Send(batch))
	ds := make([]fabric.Datagram, 16)
	seen := 0
	for n := 1; n > 0; seen += n {
		if n, err = r.Receive(ds); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.Stats().Overflows; seen == 40 || n != uint64(40-seen) {
		t.Errorf("%d arrived of 40 and %d overflows were counted", seen, n)
	}
}

func TestOpenExplainsWhatIsWrong(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	taken := openUDP(t, "127.1.0.1")
	_, err := raw.Open(raw.Config{Addrs: taken.Caps().Addrs})
	if !errors.Is(err, unix.EADDRINUSE) || !strings.Contains(err.Error(), "choose another address") {
		t.Errorf("an address in use: %v", err)
	}
	many := make([]netip.Addr, 17)
	for i := range many {
		many[i] = netip.AddrFrom4([4]byte{127, 2, 0, byte(i)})
	}
	if _, err := raw.Open(raw.Config{Addrs: many}); err == nil || !strings.Contains(err.Error(), "at most 16") {
		t.Errorf("17 addresses: %v", err)
	}
	full := openRaw(t, "127.2.0.0") // the largest filter is loaded without complaint
	if err := full.Close(); err != nil {
		t.Error(err)
	}
	if p, err := raw.Open(raw.Config{Addrs: many[:16]}); err != nil {
		t.Errorf("16 addresses: %v", err)
	} else if err := p.Close(); err != nil {
		t.Error(err)
	}
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: this thread has lost its privilege
		var none [2]unix.CapUserData
		hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		if err := unix.Capset(&hdr, &none[0]); err != nil {
			result <- err
			return
		}
		_, err := raw.Open(raw.Config{Addrs: many[:1]})
		result <- err
	}()
	if err := <-result; !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "CAP_NET_RAW") {
		t.Errorf("without privilege: %v", err)
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	a, b := openRaw(t, "127.1.0.1"), openRaw(t, "127.1.0.2")
	p := fabric.Path{Src: a.Caps().Addrs[0], Dst: b.Caps().Addrs[0], SrcPort: 0xC000, HopLimit: 64}
	batch := fabric.NewBatch(1<<17, a.Caps())
	ds := make([]fabric.Datagram, 16)
	avg := testing.AllocsPerRun(200, func() {
		for range 20 {
			batch.Append(&p, 1040)
		}
		must.Do(t, a.Send(batch))
		for n := 0; n < 20; {
			k, err := b.Receive(ds)
			must.Do(t, err)
			n += k
		}
	})
	if avg != 0 {
		t.Errorf("%v allocations per round of Send and Receive", avg)
	}
}

func TestCloseEndsEverything(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	p := openRaw(t, "127.1.0.1")
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
	if _, err := p.Receive(nil); !errors.Is(err, fabric.ErrClosed) {
		t.Errorf("receive after close: %v", err)
	}
	must.Fail(t, p.Send(fabric.NewBatch(64, p.Caps())), fabric.ErrClosed, "send after close")
	openRaw(t, "127.1.0.1") // the address is free again
}
