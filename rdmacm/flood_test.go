package rdmacm

import (
	"errors"
	"flag"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
	"github.com/softhca/softhca/verbs"
)

var floodSize = flag.Int("flood", 50_000, "REQs of TestC11_C12_FloodOverUDP")

// perCycle is the number of REQs of the flood per connection of the honest client.
const perCycle = 2500

// flooder sends REQs from its own socket, and reads nothing.
type flooder struct {
	t     testing.TB
	port  *udp.Port
	batch *fabric.Batch
	path  fabric.Path
	mad   mad.MAD
	sent  uint32
	slow  bool // the REQs ask for the longest times and the most repetitions
}

func newFlooder(t testing.TB, from, to netip.Addr) *flooder {
	t.Helper()
	p, err := udp.Open(udp.Config{Addrs: []netip.Addr{from}})
	must.Do(t, err)
	return &flooder{
		t: t, port: p, batch: fabric.NewBatch(64<<10, p.Caps()),
		path: fabric.Path{Src: from, Dst: to, SrcPort: p.Caps().SrcPort, HopLimit: 64},
	}
}

// request returns the next REQ to the listener: each requests another connection.
func (f *flooder) request() *mad.REQ {
	f.sent++
	q := &mad.REQ{
		LocalCommID: f.sent, ServiceID: mad.IPServiceID(TCP, port), LocalCAGUID: 0xbad, LocalQPN: ib.QPN(f.sent%0xfffff0 + 2),
		LocalResponseTimeout: 14, RemoteResponseTimeout: 14, MaxCMRetries: 1, PKey: ib.PKeyDefault, PathMTU: ib.MTU1024,
		Primary: mad.Path{
			LocalGID: ib.GIDFromAddr(f.path.Src), RemoteGID: ib.GIDFromAddr(f.path.Dst), HopLimit: 64, LocalAckTimeout: 10,
		},
	}
	if f.slow {
		q.LocalResponseTimeout, q.MaxCMRetries = 31, 15
	}
	mad.IPHeader{SrcPort: uint16(f.sent), SrcAddr: f.path.Src, DstAddr: f.path.Dst}.Put((*[mad.IPHeaderSize]byte)(q.PrivateData[:]))
	return q
}

// send sends n REQs as fast as the system accepts them.
func (f *flooder) send(n int) error {
	for range n {
		f.mad.PutHeader(mad.CMHeader(mad.AttrREQ, uint64(f.sent)))
		f.request().Put(&f.mad)
		p := roce.Packet{
			BTH:  roce.BTH{Opcode: roce.UDSendOnly, PKey: ib.PKeyDefault, DestQP: ib.QPNGSI},
			DETH: roce.DETH{QKey: ib.QKeyGSI, SrcQP: ib.QPNGSI}, Payload: f.mad[:],
		}
		size := roce.Size(roce.UDSendOnly, mad.Size)
		seg, id := f.batch.Append(&f.path, size)
		if seg == nil {
			if err := f.flush(); err != nil {
				return err
			}
			seg, id = f.batch.Append(&f.path, size)
		}
		p.Build(seg)
		roce.Seal(seg, roce.NewPrefix(f.path.Src, f.path.Dst, f.path.SrcPort, fabric.RoCEPort, size).WithID(uint16(id)))
	}
	return f.flush()
}

func (f *flooder) flush() error {
	for {
		err := f.port.Send(f.batch)
		if !errors.Is(err, fabric.ErrBlocked) {
			return err
		}
		if err := f.port.Wait(-1, false, true); err != nil {
			return err
		}
	}
}

// server is a program that receives a message over each connection. It accepts a few
// requests of a flood, as a program that cannot recognize them would, and rejects the
// others.
type server struct {
	*host
	inbox    *verbs.MR
	honest   netip.Addr
	served   int // connections of the honest client that had a message
	strange  int // requests of the flood; one of 64 (strangers) is accepted
	accepted int
	keen     bool // all are
}

const strangers = 64

const floodText = "during the flood"

// serve handles events until done returns true.
func (s *server) serve(done func() bool) error {
	for !done() {
		e, err := s.ch.Get(s.t.Context())
		if err != nil {
			return err
		}
		e.Ack()
		if err := s.step(e); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) step(e *Event) error {
	stranger := e.ID.PeerAddr().Addr() != s.honest
	switch {
	case e.Type == EventConnectRequest:
		if stranger {
			s.strange++
		}
		if stranger && s.strange%strangers != 1 && !s.keen {
			return e.ID.Destroy()
		}
		if stranger {
			s.accepted++
		}
		if err := s.accept(e.ID); !errors.Is(err, ib.EINVAL) {
			return err
		}
		return e.ID.Destroy() // its peer has given up
	case e.Type == EventDisconnected:
		wc, err := e.ID.GetRecvComp(s.t.Context())
		if err != nil || wc.Status != ib.WCSuccess || wc.ByteLen != uint32(len(floodText)) {
			return errors.Join(err, errors.New("the message did not come: "+wc.Status.String()))
		}
		s.served++
		return errors.Join(e.ID.Disconnect(), e.ID.Destroy())
	case e.Type == EventEstablished:
		return nil
	default: // a peer of the flood that does not answer, or a connection that was given up
		return e.ID.Destroy()
	}
}

func (s *server) accept(id *ID) error {
	if err := id.CreateQP(nil, small()); err != nil {
		return err
	}
	if err := id.QP().PostRecv(verbs.RecvWR{SGList: []verbs.SGE{s.inbox.SGE(0, 64)}}); err != nil {
		return err
	}
	return id.Accept(nil)
}

// cycle is a connection of the honest client, with a message.
func cycle(t *testing.T, a *host, to netip.AddrPort) {
	t.Helper()
	client := a.id(TCP)
	must.Do(t, client.SetAckTimeout(17)) // packets that the flood displaces are retransmitted soon, and for seconds
	must.Do(t, client.SetResponseTimeout(16, 15))
	withQP(t, a.resolve(client, to))
	must.Do(t, client.Connect(nil))
	a.take(EventEstablished)
	must.Do(t, client.QP().PostSend(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendInline, InlineData: []byte(floodText)}))
	wc, err := client.GetSendComp(soon(t))
	must.Do(t, err)
	if wc.Status != ib.WCSuccess {
		t.Fatalf("the message: %v", wc.Status)
	}
	must.Do(t, client.Disconnect())
	a.take(EventDisconnected)
	destroy(t, client)
}

// heapInUse returns the bytes in use after a collection.
func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestC11_C12_FloodOverUDP floods a listener on a UDP socket with REQs of another host
// while a client connects, sends and disconnects: the flood gets no more than its share
// of the backlog, every connection of the client succeeds, and no objects are left at
// the end.
func TestC11_C12_FloodOverUDP(t *testing.T) {
	a, b := newUDPPair(t)
	const backlog, share = 64, 48
	l := b.listener(TCP, backlog)
	pd, err := l.PD()
	must.Do(t, err)
	s := &server{host: b, honest: a.addr}
	s.inbox, err = pd.RegMR(make([]byte, 64), ib.AccessLocalWrite)
	must.Do(t, err)
	f := newFlooder(t, netip.MustParseAddr(loopback()), b.addr)
	cycles := max(*floodSize/perCycle, 1)

	grant, errs := make(chan int, cycles), make(chan error, 2)
	var wg sync.WaitGroup
	wg.Go(func() { errs <- s.serve(func() bool { return s.served == cycles }) })
	wg.Go(func() {
		for n := range grant {
			if err := f.send(n); err != nil {
				errs <- err
				return
			}
		}
		errs <- nil
	})
	start, before, peak := time.Now(), heapInUse(), int64(0)
	for n := range cycles {
		grant <- perCycle
		cycle(t, a, b.at(port))
		b.m.mu.Lock()
		waiting, taken, ids := l.inbox.backlog.waiting, l.inbox.backlog.from[f.path.Src], len(b.m.ids)
		b.m.mu.Unlock()
		if waiting > backlog || taken > share || ids > backlog+1+perCycle {
			t.Fatalf("%d requests wait, %d of the flood; %d IDs", waiting, taken, ids)
		}
		if n%16 == 0 || n == cycles-1 {
			peak = max(peak, heapInUse()-before)
		}
	}
	took := time.Since(start)
	if peak > 32<<20 { // some hundred queue pairs, and the memory of the test itself
		t.Errorf("the heap grows by %d bytes", peak)
	}
	close(grant)
	wg.Wait()
	must.Do(t, errors.Join(<-errs, <-errs))
	must.Do(t, f.port.Close())
	destroy(t, l)
	must.Do(t, s.serve(func() bool { return b.m.IDs() == 0 }))
	n := b.counters()
	t.Logf("%d REQs were sent, %d came in, %d were taken and %d accepted; meanwhile %d connections in %v, %.0f a second; %d KiB more of heap",
		f.sent, n.Received[0], s.strange, s.accepted, cycles, took.Round(time.Millisecond), float64(cycles)/took.Seconds(), peak>>10)
	b.quiet("after the flood")
	waitUntil(t, func() bool { return a.conns() == 0 && b.conns() == 0 })
	must.Do(t, s.inbox.Dereg())
}

// TestC11_SilentPeersKeepNobodyOut has a server accept every request, as rping -P does, with
// a queue pair for each. A host sends 1,473 of them, which ask for the longest times, and
// answers nothing: the server holds 256, and a client connects meanwhile and after.
func TestC11_SilentPeersKeepNobodyOut(t *testing.T) {
	const reqs, cycles = 1473, 8
	a, b := newUDPPair(t)
	l := b.listener(TCP, 64)
	pd, err := l.PD()
	must.Do(t, err)
	s := &server{host: b, honest: a.addr, keen: true}
	s.inbox, err = pd.RegMR(make([]byte, 64), ib.AccessLocalWrite)
	must.Do(t, err)
	f := newFlooder(t, netip.MustParseAddr(loopback()), b.addr)
	f.slow = true
	served := make(chan error, 1)
	go func() { served <- s.serve(func() bool { return s.served == cycles }) }()
	for n := range cycles {
		for range reqs / cycles {
			must.Do(t, f.send(1))
			before := b.counters().Received[0]
			waitUntil(t, func() bool { return b.counters().Received[0] > before || b.counters().Received[0] >= uint64(f.sent) })
		}
		start := time.Now()
		cycle(t, a, b.at(port))
		t.Logf("after %d REQs a client is served in %v", f.sent, time.Since(start).Round(time.Millisecond))
		if n < cycles-1 && b.m.IDs() > minSilent+64+3 {
			t.Errorf("%d IDs after %d REQs", b.m.IDs(), f.sent)
		}
	}
	must.Do(t, <-served)
	n := b.counters()
	t.Logf("%d requests of the flood were accepted, %d gave way, %d were not answered", s.accepted, n.GivenUp, n.Refused)
	if n.GivenUp == 0 {
		t.Error("none gave way")
	}
	must.Do(t, errors.Join(f.port.Close(), s.inbox.Dereg()))
	destroy(t, l)
}
