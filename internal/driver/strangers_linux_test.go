package driver_test

import (
	"encoding/binary"
	"errors"
	"flag"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

var (
	strangersTime = flag.Duration("strangers", 10*time.Second, "how long TestStrangersOnThePeersHost attacks, in all")
	strangersSeed = flag.Uint64("strangers-seed", 0, "seed of TestStrangersOnThePeersHost; 0 draws one")
)

// siege is one attack.
type siege struct {
	name  string
	rate  int // hostile packets a second to each side
	teach bool
	quiet bool
}

// fullRate is what one processor can send.
const fullRate = 0

// Where strangers teach, all of theirs are 0, as of a peer that sends no runs,
// and no honest one is on purpose: what an adapter learnt from them would be
// wrong. Otherwise either side sends both. Where the honest side is quiet, it
// writes a packet now and then, and strangers write to QP1 what is not even
// answered: a retry has nothing before it but theirs.
var sieges = []siege{
	{name: "340 per second, quiet", rate: 340, teach: true, quiet: true},
	{name: "340 per second", rate: 340},
	{name: "20,000 per second, quiet", rate: 20_000, teach: true, quiet: true},
	{name: "20,000 per second", rate: 20_000},
	{name: "full rate", rate: fullRate, teach: true},
}

// TestStrangersOnThePeersHost lets processes on the peer's host, who have its
// address, send an adapter what they like, with intact ICRCs for identifications
// of their choice: to RC, UC and UD queue pairs and to the connection manager.
// Meanwhile the identifications of the honest sides jump as they please. At the
// rates that end nothing but what trusts such packets, no connection fails. At
// the full rate of a processor no honest packet is dropped for its ICRC, and
// where a connection fails, the socket has overflowed and says so.
func TestStrangersOnThePeersHost(t *testing.T) {
	seed := *strangersSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-strangers-seed %d", seed)
	for i, s := range sieges {
		t.Run(s.name, func(t *testing.T) {
			s.run(t, rand.New(rand.NewPCG(seed, uint64(i))), *strangersTime/time.Duration(len(sieges)))
		})
	}
}

// run attacks for a time.
func (c *siege) run(t *testing.T, r *rand.Rand, d time.Duration) {
	a, b := newHost(t, r, !c.teach), newHost(t, r, !c.teach)
	l := connect(t, a, b)
	stop := make(chan struct{})
	services := []func(stop <-chan struct{}) (int, error){l.reliable, l.unreliable, l.datagrams, l.connections}
	if c.quiet {
		services = []func(stop <-chan struct{}) (int, error){l.seldom}
	}
	errs := make([]error, len(services))
	done := make([]int, len(services))
	var honest, hostile sync.WaitGroup
	for i, f := range services {
		honest.Go(func() { done[i], errs[i] = f(stop) })
	}
	sent := make([]int, 2)
	for i, s := range []*stranger{newStranger(r, b, l).at(t, a.addr, b.addr), newStranger(r, a, l).at(t, b.addr, a.addr)} {
		if c.rate == fullRate && i == 1 {
			break // one processor
		}
		s.teach, s.blind = c.teach, c.quiet
		hostile.Go(func() { sent[i] = s.attack(c.rate, time.Now().Add(d)) })
	}
	hostile.Wait()
	close(stop)
	honest.Wait()
	l.wantAlive()
	overflows := a.port.Stats().Overflows + b.port.Stats().Overflows
	t.Logf("%d hostile packets; of RC, UC, UD and connections %v; %d overflows; identifications jumped %d times",
		sent[0]+sent[1], done, overflows, a.port.jumps.Load()+b.port.jumps.Load())
	if err := errors.Join(errs...); err != nil && c.rate == fullRate && overflows > 0 {
		t.Logf("with overflows: %v", err)
	} else if err != nil {
		t.Errorf("%v; %d overflows", err, overflows)
	}
	for _, h := range []*host{a, b} {
		// Where the peer changes its ways, its RC and its UC queue pair may lose
		// a packet each.
		limit := 2 * uint64(h.peer.port.jumps.Load())
		if n := h.count(counters.DropICRC); n > limit {
			t.Errorf("%v dropped %d packets for their ICRC; there were none but intact ones, and %d at most may be lost to changes", h.addr, n, limit)
		}
	}
	if came := b.port.Stats().ReceivedPackets; came < uint64(sent[0]/10) && overflows == 0 {
		t.Errorf("of %d hostile packets no more than %d came: the test shows nothing", sent[0], came)
	}
}

// stranger is a process on the host of from. It knows the queue pairs.
type stranger struct {
	conn  *net.UDPConn
	r     *rand.Rand
	from  netip.AddrPort
	to    netip.AddrPort
	qpn   [3]ib.QPN // RC, UC, UD
	buf   []byte
	oob   []byte
	teach bool // it sends the first segment index alone
	blind bool // it knows two addresses and nothing else
	one   bool // the kernel sends no runs
}

// newStranger returns a stranger who attacks a host.
func newStranger(r *rand.Rand, to *host, l *link) *stranger {
	s := &stranger{r: rand.New(rand.NewPCG(r.Uint64(), 1)), oob: make([]byte, unix.CmsgSpace(2))}
	for i, e := range l.ends(to) {
		s.qpn[i] = e.qp.Num()
	}
	return s
}

// at gives the stranger a socket and a target.
func (s *stranger) at(t *testing.T, from, to netip.Addr) *stranger {
	t.Helper()
	c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)))
	must.Do(t, err)
	t.Cleanup(func() { must.Do(t, c.Close()) })
	s.conn, s.from, s.to = c, c.LocalAddr().(*net.UDPAddr).AddrPort(), netip.AddrPortFrom(to, fabric.RoCEPort)
	return s
}

// maxBurst is the packets of one system call.
const maxBurst = 32

// attack sends until the end, rate packets a second, and returns how many.
func (s *stranger) attack(rate int, end time.Time) (sent int) {
	start := time.Now()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for now := start; now.Before(end); now = time.Now() {
		due := maxBurst
		if rate != fullRate {
			if due = min(int(now.Sub(start).Seconds()*float64(rate))-sent, maxBurst); due <= 0 {
				<-tick.C
				continue
			}
		}
		sent += s.burst(due)
	}
	return sent
}

// The opcodes of each kind of packet.
var hostileOps = [...][]roce.Opcode{
	{roce.RCSendOnly, roce.RCSendMiddle, roce.RCRDMAWriteOnly, roce.RCRDMAReadRequest, roce.RCCompareSwap, roce.RCFetchAdd},
	{roce.RCAcknowledge, roce.RCRDMAReadResponseOnly, roce.RCRDMAReadResponseFirst, roce.RCAtomicAcknowledge},
	{roce.UCSendOnly, roce.UCSendFirst, roce.UCSendMiddle, roce.UCSendLast, roce.UCRDMAWriteOnly},
	{roce.UDSendOnly},
	{roce.UDSendOnly}, // MADs
}

// burst sends n packets of a kind and returns how many left.
func (s *stranger) burst(n int) int {
	kind := s.r.IntN(len(hostileOps))
	if s.blind {
		kind = 4
	}
	op := hostileOps[kind][s.r.IntN(len(hostileOps[kind]))]
	size := 8 * s.r.IntN(8)
	switch {
	case kind == 4:
		size = mad.Size
	case op.Info().Payload == roce.PayloadNone:
		size = 0
	}
	s.buf = s.buf[:0]
	for range n {
		p := s.packet(kind, op, make([]byte, size))
		seg := make([]byte, roce.Size(op, size))
		p.Build(seg)
		roce.Seal(seg, roce.NewPrefix(s.from.Addr(), s.to.Addr(), s.from.Port(), s.to.Port(), len(seg)).WithID(s.id()))
		s.buf = append(s.buf, seg...)
	}
	return s.send(len(s.buf)/n, n)
}

// send sends n packets of a size.
func (s *stranger) send(size, n int) (sent int) {
	if n > 1 && !s.one {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&s.oob[0]))
		h.Level, h.Type = unix.SOL_UDP, unix.UDP_SEGMENT
		h.SetLen(unix.CmsgLen(2))
		binary.NativeEndian.PutUint16(s.oob[unix.CmsgLen(0):], uint16(size))
		if _, _, err := s.conn.WriteMsgUDPAddrPort(s.buf, s.oob, s.to); err == nil {
			return n
		}
		s.one = true
	}
	for i := range n {
		if _, err := s.conn.WriteToUDPAddrPort(s.buf[i*size:(i+1)*size], s.to); err == nil {
			sent++
		}
	}
	return sent
}

// id returns an identification.
func (s *stranger) id() uint16 {
	switch {
	case s.teach:
		return 0
	case s.r.IntN(2) == 0:
		return uint16(s.r.IntN(64))
	default:
		return uint16(s.r.Uint32())
	}
}

// packet returns a packet of a kind with what nobody told the stranger: a PSN
// far from those in use, a Q_Key, the IDs of connections.
func (s *stranger) packet(kind int, op roce.Opcode, payload []byte) *roce.Packet {
	r := s.r
	for i := range payload {
		payload[i] = byte(r.Uint32())
	}
	p := &roce.Packet{Payload: payload}
	p.BTH = roce.BTH{Opcode: op, PKey: ib.PKeyDefault, PSN: farPSN(r), AckReq: r.IntN(2) == 0, MigReq: r.IntN(2) == 0}
	p.DETH = roce.DETH{QKey: ib.QKey(r.Uint32() | 1), SrcQP: ib.QPN(r.Uint32N(1 << 24))}
	p.RETH = roce.RETH{VA: r.Uint64(), RKey: ib.RKey(r.Uint32()), Length: uint32(len(payload))}
	p.AtomicETH = roce.AtomicETH{VA: r.Uint64() &^ 7, RKey: ib.RKey(r.Uint32()), Compare: r.Uint64()}
	p.AETH = roce.AETH{
		Syndrome: []roce.Syndrome{roce.ACKUnlimited, roce.NAKSequence, roce.NAKRemoteAccess, roce.NAKInvalidRequest, roce.RNRNAK(12)}[r.IntN(5)],
		MSN:      ib.MSN(r.Uint32N(1 << 24)),
	}
	switch {
	case kind == 4:
		p.BTH.DestQP = ib.QPNGSI
		if !s.blind {
			p.DETH.QKey = ib.QKeyGSI
		}
		attrs := []mad.AttrID{mad.AttrREQ, mad.AttrREJ, mad.AttrREP, mad.AttrRTU, mad.AttrDREQ, mad.AttrDREP, mad.AttrMRA}
		(*mad.MAD)(payload).PutHeader(mad.CMHeader(attrs[r.IntN(len(attrs))], r.Uint64()))
	case r.IntN(4) == 0:
		p.BTH.DestQP = ib.QPN(r.Uint32N(1 << 24))
	default:
		p.BTH.DestQP = s.qpn[max(kind-1, 0)]
	}
	if r.IntN(8) == 0 {
		p.BTH.PKey = ib.PKey(r.Uint32())
	}
	return p
}

// firstPSN is where the queue pairs of the test begin.
const firstPSN = 100

// farPSN returns a PSN that the queue pairs do not come to: about half a
// circle from where they begin, so that it may be old or new.
func farPSN(r *rand.Rand) ib.PSN { return ib.NewPSN(firstPSN + 1<<23 - 1<<21 + r.Uint32N(1<<22)) }

// loopback returns address i of this process.
func loopback(i byte) netip.Addr {
	pid := os.Getpid()
	return netip.AddrFrom4([4]byte{127, byte(192 + pid>>8&31), byte(pid), i})
}
