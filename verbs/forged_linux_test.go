//go:build !portable

package verbs

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/roce"
)

// forger is a process on the host of an endpoint that sends packets in its name.
type forger struct {
	*net.UDPConn
	src, dst netip.AddrPort
}

func newForger(t testing.TB, from, to *endpoint) *forger {
	t.Helper()
	a := net.UDPAddrFromAddrPort(netip.AddrPortFrom(from.ctx.QueryGID(0).Addr(), 0))
	dst := netip.AddrPortFrom(to.ctx.QueryGID(0).Addr(), fabric.RoCEPort)
	c, err := net.DialUDP("udp", a, net.UDPAddrFromAddrPort(dst))
	must.Do(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return &forger{c, c.LocalAddr().(*net.UDPAddr).AddrPort(), dst}
}

// send sends a packet n times, with a correct ICRC.
func (f *forger) send(t testing.TB, p roce.Packet, n int) {
	t.Helper()
	b := make([]byte, roce.Size(p.BTH.Opcode, len(p.Payload)))
	p.BTH.PKey = ib.PKeyDefault
	p.Build(b)
	roce.Seal(b, roce.NewPrefix(f.src.Addr(), f.dst.Addr(), f.src.Port(), f.dst.Port(), len(b)))
	for range n {
		_, err := f.Write(b)
		must.Do(t, err)
	}
}

// forgedPair is two endpoints that have met, with further ones for each service, and a forger.
type forgedPair struct {
	a, b     *endpoint
	uca, ucb *endpoint
	uda, udb *endpoint
	*forger
}

func newForgedPair(t testing.TB, w Wire) *forgedPair {
	t.Helper()
	p := new(forgedPair)
	p.a, p.b = newWirePair(t, w, Config{}, Config{}, nil)
	p.uca, p.ucb = p.a.sibling(t, ib.UC), p.b.sibling(t, ib.UC)
	p.uda, p.udb = p.a.sibling(t, ib.UD), p.b.sibling(t, ib.UD)
	connect(t, p.uca, p.ucb, nil)
	connect(t, p.uda, p.udb, nil)
	p.forger = newForger(t, p.a, p.b)
	return p
}

// write returns a forged WRITE to b of one packet.
func (p *forgedPair) write(at *endpoint, op roce.Opcode, psn ib.PSN) roce.Packet {
	return roce.Packet{
		BTH:     roce.BTH{Opcode: op, DestQP: at.qp.QPN(), PSN: psn, MigReq: true},
		RETH:    roce.RETH{VA: at.mr.Addr(), RKey: at.mr.RKey(), Length: 4},
		Payload: []byte("evil"),
	}
}

// datagram returns a forged SEND to b from a queue pair.
func (p *forgedPair) datagram(from ib.QPN) roce.Packet {
	return roce.Packet{
		BTH:     roce.BTH{Opcode: roce.UDSendOnly, DestQP: p.udb.qp.QPN(), MigReq: true},
		DETH:    roce.DETH{QKey: testQKey, SrcQP: from},
		Payload: make([]byte, 4),
	}
}

// awaitBarrier waits until b refuses packets in the name of a.
func (p *forgedPair) awaitBarrier(t testing.TB) {
	t.Helper()
	for end := time.Now().Add(waitLimit); p.b.counter(t, "drop_forged") == 0; {
		p.send(t, p.write(p.b, roce.RCRDMAWriteOnly, ib.NewPSN(1<<23)), 1)
		must.Do(t, p.a.qp.PostSend(p.a.write(1, 8, p.b)))
		p.a.wait(t, 1)
		if time.Now().After(end) {
			t.Fatal("forged packets are not dropped")
		}
	}
}

// TestForgersOfAMetProcess has a process on the host send packets in the name of one whose packets
// take shared memory. Those for queue pairs are dropped and counted, whatever the service.
func TestForgersOfAMetProcess(t *testing.T) {
	p := newForgedPair(t, WireAuto)
	p.awaitBarrier(t)
	p.b.settle(t)
	dropped := p.b.counter(t, "drop_forged")
	expect := func(what string, n uint64) {
		t.Helper()
		dropped += n
		for end := time.Now().Add(waitLimit); p.b.counter(t, "drop_forged") < dropped; {
			if time.Now().After(end) {
				t.Fatalf("%s: %d forged packets are dropped, want %d", what, p.b.counter(t, "drop_forged"), dropped)
			}
		}
	}
	// The loop above may have sent more than it has seen dropped.
	p.send(t, p.datagram(5<<16|7), 1)
	must.Do(t, p.udb.qp.PostRecv(p.udb.recv(1, 0, 64)))
	p.send(t, p.datagram(5<<16|7), 1)
	p.udb.wait(t, 1)
	dropped = p.b.counter(t, "drop_forged")
	p.send(t, p.write(p.b, roce.RCRDMAWriteOnly, ib.NewPSN(100)), 10)
	expect("RC", 10)
	p.send(t, p.write(p.ucb, roce.UCRDMAWriteOnly, ib.NewPSN(100)), 10)
	expect("UC", 10)
	p.send(t, p.datagram(p.uda.qp.QPN()), 10)
	expect("UD", 10)
	p.send(t, roce.Packet{BTH: roce.BTH{Opcode: roce.RCAcknowledge, DestQP: p.b.qp.QPN(), PSN: ib.NewPSN(100)}}, 10)
	expect("ACK", 10)
	p.ucb.settle(t)
	if got := string(p.ucb.mr.Bytes()[:4]); got == "evil" {
		t.Error("a forged WRITE has changed memory")
	}
	p.ucb.settle(t)
	for i := range 100 {
		must.Do(t, p.uca.qp.PostSend(p.uca.write(uint64(i), 4096, p.ucb)))
		p.uca.wait(t, 1)
		must.Do(t, p.a.qp.PostSend(p.a.write(uint64(i), 4096, p.b)))
		p.a.wait(t, 1)
	}
	if n := p.b.counter(t, "drop_forged"); n != dropped {
		t.Errorf("%d packets are counted as forged, want %d", n, dropped)
	}
}

// TestForgersByUDP makes the attack of TestForgersOfAMetProcess on processes that have not met: it
// changes memory.
func TestForgersByUDP(t *testing.T) {
	p := newForgedPair(t, WireUDP)
	before := p.b.counter(t, "rx_write_requests")
	p.send(t, p.write(p.ucb, roce.UCRDMAWriteOnly, ib.NewPSN(100)), 1)
	p.b.reaches(t, "rx_write_requests", before+1)
	if got := string(p.ucb.mr.Bytes()[:4]); got != "evil" {
		t.Errorf("the forged packet has written %q: the test of the barrier shows nothing", got)
	}
}

// TestSuccessorByUDP opens an adapter without shared memory at the address of one that has ended. Its
// packets, in the same slot, are not taken for forged.
func TestSuccessorByUDP(t *testing.T) {
	p := newForgedPair(t, WireAuto)
	p.awaitBarrier(t)
	addr := p.a.ctx.QueryGID(0).Addr().String()
	must.Do(t, p.a.ctx.Close())
	for end := time.Now().Add(waitLimit); p.b.counter(t, "near_peers") != 0; {
		if time.Now().After(end) {
			t.Fatal("the peer that has ended is not forgotten")
		}
	}
	dropped := p.b.counter(t, "drop_forged")
	next := newEndpoint(t, Config{Addr: addr, Wire: WireUDP}, ib.UD)
	next.walk(t, next.attrs(p.udb), ib.RTS)
	ah, err := next.pd.CreateAH(AHAttr{DGID: p.b.ctx.QueryGID(0), HopLimit: 64, Port: 1})
	must.Do(t, err)
	for i := range 20 {
		must.Do(t, p.udb.qp.PostRecv(p.udb.recv(uint64(i), 0, 256)))
		wr := next.send(uint64(i), 64)
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, p.udb.qp.QPN(), testQKey
		must.Do(t, next.qp.PostSend(wr))
		next.wait(t, 1)
		p.udb.wait(t, 1)
	}
	if n := p.b.counter(t, "drop_forged"); n != dropped {
		t.Errorf("%d packets of the next process are taken for forged", n-dropped)
	}
}
