//go:build linux && !portable

package udp

import (
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/roce"
)

// A socket without UDP checksums is one for which the kernel refuses to
// segment: the port must notice, send the parts, and not ask again.
func TestKernelThatRefusesOffloadGetsSegments(t *testing.T) {
	pid := os.Getpid()
	addr := netip.AddrFrom4([4]byte{127, 77, byte(pid >> 8), byte(pid)})
	p, err := Open(Config{Addrs: []netip.Addr{addr}, GSO: GSOOn})
	must.Do(t, err)
	t.Cleanup(func() { _ = p.Close() })
	must.Do(t, unix.SetsockoptInt(p.socks[0].fd, unix.SOL_SOCKET, unix.SO_NO_CHECK, 1))
	path := fabric.Path{Src: addr, Dst: addr, HopLimit: 64}
	prefix := roce.NewPrefix(addr, addr, fabric.RoCEPort, fabric.RoCEPort, 64)
	batch := fabric.NewBatch(1<<14, p.Caps())
	ds := make([]fabric.Datagram, 16)
	for round := range 2 {
		for range 40 {
			seg, index := batch.Append(&path, 64)
			clear(seg)
			roce.Seal(seg, prefix.WithID(uint16(index)))
		}
		must.Do(t, p.Send(batch))
		if p.send.gso {
			t.Fatalf("round %d: the port still asks for the offload that was refused", round)
		}
		for n := 0; n < 40; {
			k, err := p.Receive(ds)
			must.Do(t, err)
			for i := range ds[:k] {
				if !roce.Check(ds[i].Bytes, prefix) {
					t.Errorf("round %d: the ICRC of segment %d is not for identification 0", round, n+i)
				}
			}
			if n += k; k == 0 {
				must.Do(t, p.Wait(time.Second, true, false))
			}
		}
	}
	if s := p.Stats(); s.SentPackets != 80 || s.SendErrors != 0 {
		t.Errorf("%d packets counted as sent and %d as refused, not 80 and 0", s.SentPackets, s.SendErrors)
	}
}

// TestStaleErrors sends to an address without a socket, from a socket that gets
// the ICMP error: the pending error of one packet must not lose another.
func TestStaleErrors(t *testing.T) {
	pid := os.Getpid()
	addr := netip.AddrFrom4([4]byte{127, 78, byte(pid >> 8), byte(pid)})
	p, err := Open(Config{Addrs: []netip.Addr{addr}, GSO: GSOOn})
	must.Do(t, err)
	t.Cleanup(func() { _ = p.Close() })
	must.Do(t, unix.SetsockoptInt(p.socks[0].fd, unix.IPPROTO_IP, unix.IP_RECVERR, 1))
	path := fabric.Path{Src: addr, Dst: netip.AddrFrom4([4]byte{127, 79, byte(pid >> 8), byte(pid)}), HopLimit: 64}
	batch := fabric.NewBatch(1<<12, p.Caps())
	for range 5 {
		seg, _ := batch.Append(&path, 64)
		clear(seg)
		if err := p.Send(batch); err != nil || len(batch.Pending()) != 0 {
			t.Fatalf("%v, %d runs are left", err, len(batch.Pending()))
		}
	}
	if s := p.Stats(); s.SentPackets != 5 || s.SendErrors != 0 {
		t.Errorf("%d packets counted as sent and %d as refused, want 5 and 0", s.SentPackets, s.SendErrors)
	}
	if n, err := p.Receive(make([]fabric.Datagram, 1)); n != 0 || err != nil {
		t.Errorf("an error that waits gives %d datagrams, %v", n, err)
	}
}

// TestRefusedTwice shows that a run which is refused once more, right after it was
// refused because of another, is given up, and that the next has its second try.
func TestRefusedTwice(t *testing.T) {
	pid := os.Getpid()
	addr := netip.AddrFrom4([4]byte{127, 80, byte(pid >> 8), byte(pid)})
	p, err := Open(Config{Addrs: []netip.Addr{addr}})
	must.Do(t, err)
	t.Cleanup(func() { _ = p.Close() })
	run := &fabric.Run{Path: fabric.Path{Src: addr, Dst: addr, HopLimit: 64}, Bytes: make([]byte, 3*64), Size: 64, Count: 3}
	refused := uint64(0)
	for i, want := range []int{0, 1, 0, 1} {
		n, err := p.failed(p.socks[0], run, unix.ECONNREFUSED)
		if refused += uint64(3 * want); n != want || err != nil || p.Stats().SendErrors != refused {
			t.Errorf("refusal %d: %d runs are done with, %v, %d packets counted; want %d, and %d", i, n, err, p.Stats().SendErrors, want, refused)
		}
	}
	_, _ = p.failed(p.socks[0], run, unix.ECONNREFUSED)
	p.send.count([]fabric.Run{*run}) // it was sent after all
	if n, _ := p.failed(p.socks[0], run, unix.ECONNREFUSED); n != 0 {
		t.Error("the next run has no second try")
	}
}

// TestCutDatagramIsCounted has the kernel say that a datagram was longer than its
// buffer, which no UDP datagram is.
func TestCutDatagramIsCounted(t *testing.T) {
	p := &Port{Counts: new(fabric.Counts), recv: newReceiver()}
	s := &socket{addr: netip.MustParseAddr("10.0.0.1")}
	var d fabric.Datagram
	p.recv.v.msgs[0].hdr.Flags = unix.MSG_TRUNC
	if p.datagram(0, s, &d) || p.Stats().Truncated != 1 {
		t.Errorf("a datagram that was cut is handed on, or counted %d times", p.Stats().Truncated)
	}
	p.recv.reset(0)
	if !p.datagram(0, s, &d) || p.Stats().Truncated != 1 {
		t.Errorf("the next one is not handed on, or %d are counted", p.Stats().Truncated)
	}
}
