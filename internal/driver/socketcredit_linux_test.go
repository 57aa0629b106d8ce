package driver_test

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/driver"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/qp"
)

// The flood of TestUCWaitsForSlowReceiver: messages of floodBytes, in packets of the largest path MTU.
const (
	floodMessages = 200
	floodBytes    = 64 << 10
	floodPackets  = floodMessages * floodBytes / 4096
)

// TestUCWaitsForSlowReceiver floods a slow receiver on this host with UC messages. Packets are lost if the
// sender does not know how full the receiver's socket is, and none if it knows.
func TestUCWaitsForSlowReceiver(t *testing.T) {
	if lost := flood(t, false); lost == 0 {
		t.Error("nothing is lost without knowledge of the receiver's socket: the test shows nothing")
	}
	if lost := flood(t, true); lost != 0 {
		t.Errorf("%d of %d packets are lost", lost, floodPackets)
	}
}

// flood sends the messages and returns the number of packets that were lost.
func flood(t *testing.T, informed bool) int {
	t.Helper()
	receiver, err := udp.Open(udp.Config{Addrs: []netip.Addr{loopback(byte(hosts.Add(1)))}, RecvBuffer: 128 << 10})
	must.Do(t, err)
	defer func() { _ = receiver.Close() }()
	dst := receiver.Caps().Addrs[0]

	port, err := udp.Open(udp.Config{Addrs: []netip.Addr{loopback(byte(hosts.Add(1)))}, GSO: udp.GSOOn})
	must.Do(t, err)
	c := hca.Config{Caps: port.Caps(), Rand: rand.New(rand.NewPCG(1, 2)).Uint32, NodeGUID: 1}
	if informed {
		if c.Backlog = port.Backlog; port.Backlog(dst, 0) == nil {
			// Without this option UC loses packets, as the documentation says.
			t.Skip("this kernel has no CONFIG_INET_UDP_DIAG")
		}
	}
	h, err := hca.New(c)
	must.Do(t, err)
	d := driver.Start(port, h, func(cause error) { t.Error(cause) })
	defer func() { must.Do(t, d.Close()) }()
	var q *qp.QP
	var cq *qp.CQ
	var wr ib.SendWR
	must.Do(t, d.Control(func(now clock.Instant) {
		pd, err := h.AllocPD()
		must.Do(t, err)
		mr, err := pd.RegMR(memory.RegionConfig{Buf: make([]byte, floodBytes), Access: ib.AccessLocalWrite})
		must.Do(t, err)
		cq, err = h.CreateCQ(floodMessages, func() {})
		must.Do(t, err)
		q, err = h.CreateQP(pd, hca.QPConfig{
			Type: ib.UC, SendCQ: cq, RecvCQ: cq, SigAll: true,
			Cap: ib.QPCap{MaxSendWR: floodMessages, MaxSendSGE: 1, MaxRecvWR: 1, MaxRecvSGE: 1},
		})
		must.Do(t, err)
		wr = ib.SendWR{Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{{Addr: mr.Addr(), Length: floodBytes, LKey: mr.LKey()}}}
		a := ib.QPAttr{Port: 1, PathMTU: ib.MTU4096, DestQPN: 0x100, AV: ib.AHAttr{DGID: ib.GIDFromAddr(dst), HopLimit: 64, Port: 1}}
		for a.State = ib.INIT; a.State <= ib.RTS; a.State++ {
			need, _, _ := qp.Transition(ib.UC, a.State-1, a.State)
			must.Do(t, q.Modify(now, &a, need|ib.AttrState))
		}
	}))
	for range floodMessages {
		_, err := q.PostSend(wr)
		must.Do(t, err)
	}
	d.Post(q, qp.Posted{})
	got := readSlowly(t, receiver)
	wcs := make([]ib.WC, floodMessages)
	for n, end := 0, time.Now().Add(soon); n < floodMessages; n += cq.Poll(wcs) {
		if time.Now().After(end) {
			t.Fatalf("%d of %d messages are complete", n, floodMessages)
		}
	}
	return floodPackets - got
}

// readSlowly reads one datagram at a time, with pauses, until all packets have arrived, or none for a
// second, and returns their number.
func readSlowly(t *testing.T, p *udp.Port) (got int) {
	t.Helper()
	ds := make([]fabric.Datagram, 1)
	for last := time.Now(); got < floodPackets && time.Since(last) < time.Second; {
		n, err := p.Receive(ds)
		must.Do(t, err)
		if n > 0 {
			got, last = got+ds[0].Segments(), time.Now()
		}
		must.Do(t, p.Wait(100*time.Microsecond, false, false))
	}
	return got
}
