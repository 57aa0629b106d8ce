package flow

import (
	"net/netip"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
)

// buffer is a socket of this host. It counts the questions about it.
type buffer struct{ used, size, asked int }

func (b *buffer) backlog() (used, size int) {
	b.asked++
	return b.used, b.size
}

func (b *buffer) credit() *SocketCredit {
	find := func(netip.Addr, ib.QPN) fabric.Backlog { return b.backlog }
	return NewSocketCredits(find).Credit(netip.IPv6Loopback(), 1)
}

// fill admits packets of a queue pair to a batch until one is refused, and returns their cost.
func fill(c *SocketCredit, now clock.Instant, id ib.QPN, batch uint64) (cost int, why SocketAnswer, again clock.Instant) {
	for {
		if why, again = c.Admit(now, id, packetCost, batch); why != SocketOpen {
			return cost, why, again
		}
		cost += packetCost
	}
}

const packetCost = 1000

// TestSocketCredit shows that a sender asks once per credit, that the credit ends with a flush, and
// that it is never more than a third of what is free.
func TestSocketCredit(t *testing.T) {
	b := &buffer{size: 300_000}
	c := b.credit()
	for batch := uint64(1); batch <= 100; batch++ {
		free := b.size - b.used
		cost, why, _ := fill(c, 0, 1, batch)
		if why == SocketPause {
			if free > b.size/2+packetCost || batch < 3 {
				t.Fatalf("a pause with %d bytes free of %d", free, b.size)
			}
			return
		}
		if cost > free/3 || cost <= free/3-packetCost {
			t.Fatalf("%d bytes in a batch with %d free: want a third", cost, free)
		}
		if b.asked != int(batch) {
			t.Fatalf("%d questions for %d credits", b.asked, batch)
		}
		b.used += cost
	}
	t.Error("no pause although the receiver reads nothing")
}

// TestSocketCreditIsShared shows that packets in the batch, which are not in the socket yet, count
// for all queue pairs with packets in this batch.
func TestSocketCreditIsShared(t *testing.T) {
	b := &buffer{size: 300_000}
	c := b.credit()
	total := 0
	for id := ib.QPN(1); id <= 100; id++ {
		cost, _, _ := fill(c, 0, id, 1)
		total += cost
	}
	if total > b.size*2/3 || total < b.size/3 {
		t.Errorf("100 queue pairs put %d bytes into one batch for an empty buffer of %d", total, b.size)
	}
	if cost, _, _ := fill(c, clock.Instant(time.Millisecond), 1, 2); cost == 0 {
		t.Error("the bytes of an earlier batch count although it has been sent")
	}
}

// TestSocketPause shows that a full buffer pauses senders with few questions, and that they go on soon
// after the receiver has read.
func TestSocketPause(t *testing.T) {
	b := &buffer{size: 300_000, used: 200_000}
	c := b.credit()
	now := clock.Instant(0)
	for end := now.Add(10 * time.Millisecond); now < end; {
		cost, why, again := fill(c, now, 1, uint64(now))
		if cost > 0 || why != SocketPause {
			t.Fatalf("%d bytes sent to a full buffer, %v", cost, why)
		}
		if step := again.Sub(now); step < minPauseStep || step > maxPauseStep+time.Microsecond {
			t.Fatalf("the next question is after %v", step)
		}
		asked := b.asked
		if fill(c, now.Add(minPauseStep/2), 2, uint64(now)); b.asked != asked {
			t.Fatal("another queue pair asks before it is time")
		}
		now = again
	}
	b.used = 100_000
	if cost, _, _ := fill(c, now, 1, uint64(now)); cost == 0 {
		t.Error("no packet although there is room again")
	}
}

// TestSocketStuck shows that a receiver that reads nothing pauses senders for maxPause and no longer, that
// a slow receiver pauses them for longer, and that a stuck receiver pauses them again after it has read.
func TestSocketStuck(t *testing.T) {
	b := &buffer{size: 300_000, used: 300_000}
	c := b.credit()
	pause := func(until clock.Instant, read int) (at clock.Instant) {
		for at < until {
			var cost int
			if cost, _, at = fill(c, at, 1, uint64(at)); cost > 0 {
				t.Fatalf("%d bytes sent after %v", cost, at)
			}
			b.used -= read
		}
		return at
	}
	slow := pause(clock.Instant(3*maxPause/2), 1) // a byte at a time
	stuck := false
	for at := slow; at < slow.Add(2*maxPause) && !stuck; {
		cost, _, again := fill(c, at, 1, uint64(at))
		if stuck = cost > 0; stuck && at < slow.Add(maxPause-time.Millisecond) {
			t.Fatalf("the sender gave up after %v", at.Sub(slow))
		}
		at = again
	}
	if !stuck {
		t.Fatalf("the sender still waits after %v", 2*maxPause)
	}
	at := slow.Add(3 * maxPause)
	if cost, _, _ := fill(c, at, 1, 1); cost < maxGrant-packetCost {
		t.Errorf("%d bytes to a stuck receiver: the sender waits again", cost)
	}
	b.used = 0
	fill(c, at, 1, 2)
	b.used = b.size
	if _, why, _ := fill(c, at, 1, 3); why != SocketPause {
		t.Error("no pause although the receiver had read again")
	}
}

// TestSocketTurns shows that queue pairs that wait for the same socket get equal shares.
func TestSocketTurns(t *testing.T) {
	const senders = 5
	b := &buffer{size: 300_000}
	c := b.credit()
	at := [senders]clock.Instant{}
	order := []int{0, 1, 2, 3, 4} // the list of active ends
	var sent [senders]int
	now := clock.Instant(0)
	for batch := uint64(1); batch < 2000; batch++ {
		filled := 0
		for n := len(order); n > 0; n-- {
			i := order[0]
			order = order[1:]
			cost, why, again := fill(c, now, ib.QPN(i+1), batch)
			sent[i] += cost
			filled += cost
			if at[i] = again; why == SocketFlush {
				order = append(order, i)
				break
			}
		}
		b.used += filled
		b.used -= min(b.used, 20_000)
		if len(order) > 0 {
			continue
		}
		now = now.Add(maxPauseStep)
		for len(order) < senders { // the timers fire in their order
			first := -1
			for i := range senders {
				if at[i] != 0 && (first < 0 || at[i] < at[first]) {
					first = i
				}
			}
			at[first] = 0
			order = append(order, first)
		}
	}
	for i := range sent {
		if sent[i] < sent[0]*9/10 || sent[i] > sent[0]*11/10 {
			t.Fatalf("bytes of each queue pair: %v", sent)
		}
	}
}

// TestSocketsAreForgotten shows that the table does not grow beyond maxSockets, and that a packet is
// paused by the credit of its own destination, not by that of an earlier packet.
func TestSocketsAreForgotten(t *testing.T) {
	found := 0
	s := NewSocketCredits(func(dst netip.Addr, to ib.QPN) fabric.Backlog {
		if found++; to>>16 == 1 {
			return nil
		}
		return func() (int, int) { return 1, 1 }
	})
	for i := range uint32(4 * maxSockets) {
		s.Credit(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 0)
		if len(s.m) > maxSockets {
			t.Fatalf("the table has %d sockets", len(s.m))
		}
	}
	before := found
	a := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	full, other := s.Credit(a, 0x020005), s.Credit(a, 0x010005)
	if s.Credit(a, 0x020006) != full || found != before+2 {
		t.Error("the queue pairs of one slot have several credits")
	}
	if why, _ := full.Admit(0, 1, 1, 1); why != SocketPause {
		t.Error("no pause for a full socket")
	}
	if why, _ := other.Admit(0, 1, 1<<30, 1); why != SocketOpen {
		t.Error("a pause for a destination that is not on this host")
	}
}

// TestSocketUnknown shows that packets are sent while the backlog of a socket is unknown, with a
// question from time to time.
func TestSocketUnknown(t *testing.T) {
	b := &buffer{}
	c := b.credit()
	for batch := range uint64(10) {
		for id := range ib.QPN(2) { // of the same batch
			if cost, why, _ := fill(c, 0, 1+id, batch); why != SocketFlush || cost == 0 || cost > maxGrant {
				t.Fatalf("%d bytes, then %v", cost, why)
			}
		}
	}
	if b.asked != 20 {
		t.Errorf("%d questions", b.asked)
	}
}
