package driver_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/driver"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/ident"
	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/mad"
)

// soon bounds every wait for something that must come.
const soon = 20 * time.Second

// jumper is a UDP port whose packets say, through their ICRC, that they have
// other identifications: a peer's way to number may change at any time.
type jumper struct {
	fabric.Port
	steady bool // at times they are segment indices for a while
	r      *rand.Rand
	index  bool
	left   int          // packets until it changes
	jumps  atomic.Int64 // times that it left the segment indices
}

// Send implements fabric.Port. Blocked runs are moved once more when they are
// sent again, which changes their identification again: another jump.
func (j *jumper) Send(b *fabric.Batch) error {
	runs := b.Pending()
	for i := range runs {
		for k := range runs[i].Count {
			ident.Move(&runs[i], k, uint16(k), j.id(k))
		}
	}
	err := j.Port.Send(b)
	if err != nil {
		j.jumps.Add(1)
	}
	return err
}

func (j *jumper) id(k int) uint16 {
	if j.left == 0 {
		if j.index {
			j.jumps.Add(1)
		}
		j.index, j.left = j.steady && !j.index, 1+j.r.IntN(3000)
	}
	j.left--
	if j.index {
		return uint16(k)
	}
	return uint16(j.r.Uint32())
}

// host is an adapter on a UDP socket.
type host struct {
	t     testing.TB
	addr  netip.Addr
	alt   netip.Addr // the second one
	peer  *host
	port  *jumper
	hca   *hca.HCA
	drv   *driver.Driver
	pd    *hca.PD
	mr    *memory.Region
	buf   []byte
	told  map[ib.EventType]int // events; the shard's thread has them
	fatal chan error
}

// hosts numbers the addresses of this process.
var hosts atomic.Uint32

func newHost(t testing.TB, r *rand.Rand, steady bool) *host {
	t.Helper()
	h := &host{
		t: t, addr: loopback(byte(hosts.Add(1))), alt: loopback(byte(hosts.Add(1))),
		buf: make([]byte, numAreas*areaSize), told: make(map[ib.EventType]int), fatal: make(chan error, 1),
	}
	p, err := udp.Open(udp.Config{Addrs: []netip.Addr{h.addr, h.alt}, GSO: udp.GSOOn})
	must.Do(t, err)
	h.port = &jumper{Port: p, steady: steady, r: rand.New(rand.NewPCG(r.Uint64(), 2))}
	h.hca, err = hca.New(hca.Config{Caps: p.Caps(), Rand: rand.New(rand.NewPCG(r.Uint64(), 3)).Uint32, NodeGUID: r.Uint64(), Raise: func(e qp.Event) { h.told[e.Type]++ }})
	must.Do(t, err)
	h.drv = driver.Start(h.port, h.hca, func(cause error) { h.fatal <- cause })
	t.Cleanup(func() {
		must.Do(t, h.drv.Close())
		if len(h.fatal) > 0 {
			t.Errorf("the device died: %v", <-h.fatal)
		}
	})
	h.control(func(clock.Instant) {
		h.pd, err = h.hca.AllocPD()
		must.Do(t, err)
		h.mr, err = h.pd.RegMR(memory.RegionConfig{Buf: h.buf, Access: ib.AccessLocalWrite | ib.AccessRemote})
		must.Do(t, err)
	})
	return h
}

func (h *host) do(f func(now clock.Instant)) {
	h.t.Helper()
	must.Do(h.t, h.drv.Do(f))
}

// control runs f in the control plane.
func (h *host) control(f func(now clock.Instant)) {
	h.t.Helper()
	must.Do(h.t, h.drv.Control(f))
}

func (h *host) count(d counters.Drop) (n uint64) {
	h.do(func(clock.Instant) { n = h.hca.Counters().Drops[d] })
	return n
}

// end is a queue pair with a completion queue of its own.
type end struct {
	*host
	cq    *qp.CQ
	qp    *qp.QP
	event chan struct{}
}

const qkey = 0x1234

// newEnd returns a queue pair in RESET. It is called on the shard's thread.
func (h *host) newEnd(typ ib.QPType) *end {
	e := &end{host: h, event: make(chan struct{}, 1)}
	var err error
	e.cq, err = h.hca.CreateCQ(64, func() {
		select {
		case e.event <- struct{}{}:
		default:
		}
	})
	must.Do(h.t, err)
	e.qp, err = h.hca.CreateQP(h.pd, hca.QPConfig{
		Type: typ, SendCQ: e.cq, RecvCQ: e.cq, SigAll: true,
		Cap: ib.QPCap{MaxSendWR: 16, MaxSendSGE: 1, MaxRecvWR: 16, MaxRecvSGE: 1},
	})
	must.Do(h.t, err)
	return e
}

// walk takes the queue pair to RTS, towards to.
func (e *end) walk(to *end) {
	e.t.Helper()
	a := ib.QPAttr{
		Port: 1, AccessFlags: ib.AccessRemote, PathMTU: ib.MTU1024, DestQPN: to.qp.Num(), RQPSN: ib.NewPSN(firstPSN),
		SQPSN: ib.NewPSN(firstPSN), MaxDestRDAtomic: 4, MaxRDAtomic: 4, Timeout: 15, RetryCnt: 7, RNRRetry: 7, MinRNRTimer: 1, QKey: qkey,
		AV: ib.AHAttr{DGID: ib.GIDFromAddr(to.addr), HopLimit: 64, Port: 1},
	}
	for st := ib.INIT; st <= ib.RTS; st++ {
		a.State = st
		need, _, _ := qp.Transition(e.qp.Type(), st-1, st)
		e.do(func(now clock.Instant) { must.Do(e.t, e.qp.Modify(now, &a, need|ib.AttrState)) })
	}
}

// post posts a send.
func (e *end) post(wr ib.SendWR) error {
	_, err := e.qp.PostSend(wr)
	e.drv.Post(e.qp, qp.Posted{})
	return err
}

// sge is n bytes of an area.
func (e *end) sge(area, n int) []ib.SGE {
	return []ib.SGE{{Addr: e.mr.Addr() + uint64(area*areaSize), Length: uint32(n), LKey: e.mr.LKey()}}
}

func (e *end) area(i int) []byte { return e.buf[i*areaSize : (i+1)*areaSize] }

// next returns the next completion, if there is one within a time.
func (e *end) next(limit time.Duration) (ib.WC, bool) {
	var wc [1]ib.WC
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		e.cq.Arm(false)
		if e.cq.Poll(wc[:]) == 1 {
			return wc[0], true
		}
		select {
		case <-e.event:
		case <-timer.C:
			return wc[0], false
		}
	}
}

// succeeds takes n completions, which must all be of success.
func (e *end) succeeds(n int) error {
	for range n {
		if wc, ok := e.next(soon); !ok || wc.Status != ib.WCSuccess {
			return fmt.Errorf("%v queue pair of %v: completion %+v (%t)", e.qp.Type(), e.addr, wc, ok)
		}
	}
	return nil
}

// Areas of a host's memory.
const (
	areaSize  = 8192
	areaWrite = iota - 1 // written to the peer
	areaRead             // read from the peer
	areaSend             // sent, and received by RC
	areaWord             // for atomics
	areaCM
	areaUC
	areaUD
	areaReceive // of UC and UD: receives each
	numAreas    = areaReceive + 2*receives
)

const receives = 8

// link is what two hosts have to do with each other.
type link struct {
	a, b       [3]*end // RC, UC, UD
	connecting *connector
}

func (l *link) ends(h *host) [3]*end {
	if l.a[0].host == h {
		return l.a
	}
	return l.b
}

func connect(t *testing.T, a, b *host) *link {
	t.Helper()
	a.peer, b.peer = b, a
	l := &link{}
	for i, typ := range []ib.QPType{ib.RC, ib.UC, ib.UD} {
		a.control(func(clock.Instant) { l.a[i] = a.newEnd(typ) })
		b.control(func(clock.Instant) { l.b[i] = b.newEnd(typ) })
		l.a[i].walk(l.b[i])
		l.b[i].walk(l.a[i])
	}
	for i := range 2 {
		for k := range receives {
			must.Do(t, l.b[1+i].receive(areaReceive+i*receives+k))
		}
	}
	l.connecting = newConnector(a, b)
	return l
}

// receive posts a receive of an area, which it is named after.
func (e *end) receive(area int) error {
	_, err := e.qp.PostRecv(ib.RecvWR{WRID: uint64(area), SGList: e.sge(area, areaSize)})
	return err
}

// until calls f until stop is closed or f fails, and returns how often it
// succeeded.
func until(stop <-chan struct{}, f func(i int) error) (n int, err error) {
	for {
		select {
		case <-stop:
			return n, nil
		default:
			if err = f(n); err != nil {
				return n, err
			}
			n++
		}
	}
}

// reliable makes WRITEs, SENDs, READs and atomics, and checks their results.
func (l *link) reliable(stop <-chan struct{}) (int, error) {
	a, b := l.a[0], l.b[0]
	return until(stop, func(i int) error {
		for k := range areaSize {
			a.area(areaWrite)[k], a.area(areaSend)[k] = byte(i+k), byte(i-k)
		}
		if err := b.receive(areaSend); err != nil {
			return err
		}
		remote := func(area int) uint64 { return b.mr.Addr() + uint64(area*areaSize) }
		for _, wr := range []ib.SendWR{
			{Opcode: ib.WRRDMAWrite, SGList: a.sge(areaWrite, areaSize), RemoteAddr: remote(areaWrite), RKey: b.mr.RKey()},
			{Opcode: ib.WRSend, SGList: a.sge(areaSend, 3000)},
			{Opcode: ib.WRRDMARead, SGList: a.sge(areaRead, areaSize), RemoteAddr: remote(areaWrite), RKey: b.mr.RKey()},
			{Opcode: ib.WRAtomicFetchAdd, SGList: a.sge(areaWord, 8), RemoteAddr: remote(areaWord), RKey: b.mr.RKey(), CompareAdd: 1},
		} {
			if err := a.post(wr); err != nil {
				return err
			}
		}
		if err := a.succeeds(4); err != nil {
			return err
		}
		if err := b.succeeds(1); err != nil {
			return err
		}
		same := bytes.Equal(a.area(areaWrite), a.area(areaRead))
		b.do(func(clock.Instant) { same = same && bytes.Equal(a.area(areaSend)[:3000], b.area(areaSend)[:3000]) })
		if !same {
			return fmt.Errorf("round %d: other bytes arrived", i)
		}
		return nil
	})
}

// seldom writes one packet now and then.
func (l *link) seldom(stop <-chan struct{}) (int, error) {
	a, b := l.a[0], l.b[0]
	tick := time.NewTicker(150 * time.Millisecond)
	defer tick.Stop()
	return until(stop, func(int) error {
		<-tick.C
		return errors.Join(a.post(ib.SendWR{
			Opcode: ib.WRRDMAWrite, SGList: a.sge(areaWrite, 8), RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
		}), a.succeeds(1))
	})
}

// unreliable sends UC messages of three packets and counts those that arrive.
func (l *link) unreliable(stop <-chan struct{}) (int, error) {
	return l.messages(stop, 1, ib.SendWR{Opcode: ib.WRSend, SGList: l.a[1].sge(areaUC, 3000)})
}

// datagrams sends UD messages and counts those that arrive.
func (l *link) datagrams(stop <-chan struct{}) (int, error) {
	var ah ib.AHHandle
	a := l.a[2]
	a.control(func(clock.Instant) {
		var err error
		ah, err = a.pd.CreateAH(&ib.AHAttr{DGID: ib.GIDFromAddr(l.b[2].addr), HopLimit: 64, Port: 1})
		must.Do(a.t, err)
	})
	return l.messages(stop, 2, ib.SendWR{
		Opcode: ib.WRSend, SGList: a.sge(areaUD, 1000), AH: ah, RemoteQPN: l.b[2].qp.Num(), RemoteQKey: qkey,
	})
}

// messages sends on queue pair i until stop is closed, and then until a message
// arrives. It returns how many did.
func (l *link) messages(stop <-chan struct{}, i int, wr ib.SendWR) (arrived int, err error) {
	a, b := l.a[i], l.b[i]
	text := a.area(areaUC + i - 1)[:wr.SGList[0].Length]
	for k := range text {
		text[k] = byte(3*k + i)
	}
	once := func(int) error {
		if err := errors.Join(a.post(wr), a.succeeds(1)); err != nil {
			return err
		}
		for {
			wc, ok := b.next(10 * time.Millisecond)
			if !ok {
				return nil // lost
			}
			if wc.Status != ib.WCSuccess {
				return fmt.Errorf("%v receive: %+v", b.qp.Type(), wc)
			}
			honest := false
			b.do(func(clock.Instant) {
				honest = bytes.HasSuffix(b.area(int(wc.WRID))[:wc.ByteLen], text)
			})
			if err := b.receive(int(wc.WRID)); err != nil || honest {
				arrived++
				return err
			}
		}
	}
	if _, err := until(stop, once); err != nil {
		return arrived, err
	}
	for before, end := arrived, time.Now().Add(soon); arrived == before; {
		if err := once(0); err != nil {
			return arrived, err
		}
		if time.Now().After(end) {
			return arrived, fmt.Errorf("no %v message arrives any more", a.qp.Type())
		}
	}
	return arrived, nil
}

// wantAlive checks that the queue pairs which no packet may fail are in RTS.
func (l *link) wantAlive() {
	for _, e := range []*end{l.a[1], l.b[1], l.a[2], l.b[2]} {
		if s := e.qp.State(); s != ib.RTS {
			e.t.Errorf("the %v queue pair of %v is in %v", e.qp.Type(), e.addr, s)
		}
	}
}

const connectService = mad.ServiceID(0x0106_1d30)

// connector makes RC connections from a to b, one after the other.
type connector struct {
	a, b    *host
	active  *end
	passive *end
	heard   chan cm.EventType // by the active side
}

func newConnector(a, b *host) *connector {
	c := &connector{a: a, b: b, heard: make(chan cm.EventType, 16)}
	b.control(func(clock.Instant) {
		_, err := b.hca.CM().Listen(connectService, c.accept)
		must.Do(b.t, err)
	})
	return c
}

// accept is the handler of the passive side.
func (c *connector) accept(now clock.Instant, conn *cm.Conn, e *cm.Event) {
	switch e.Type {
	case cm.REQReceived:
		c.passive = c.b.newEnd(ib.RC)
		must.Do(c.b.t, c.b.hca.Establish(now, conn, c.passive.qp))
		must.Do(c.b.t, c.passive.receive(areaCM))
		must.Do(c.b.t, conn.SendREP(now, &cm.REPParams{QPN: c.passive.qp.Num(), RNRRetryCount: 7}))
	case cm.DREQReceived:
		must.Do(c.b.t, conn.SendDREP(now, nil))
	}
}

// ask is the handler of the active side.
func (c *connector) ask(now clock.Instant, conn *cm.Conn, e *cm.Event) {
	switch e.Type {
	case cm.REPReceived:
		must.Do(c.a.t, c.a.hca.Establish(now, conn, c.active.qp))
		must.Do(c.a.t, conn.SendRTU(now, nil))
	case cm.TimewaitExit: // of one before, and there are many
		return
	}
	select {
	case c.heard <- e.Type:
	default:
	}
}

// awaits waits for an event of the active side.
func (c *connector) awaits(want cm.EventType) error {
	timer := time.NewTimer(soon)
	defer timer.Stop()
	select {
	case got := <-c.heard:
		if got != want {
			return fmt.Errorf("connection manager: %v while waiting for %v", got, want)
		}
		return nil
	case <-timer.C:
		return fmt.Errorf("connection manager: no %v", want)
	}
}

// connections connects, sends a message and disconnects.
func (l *link) connections(stop <-chan struct{}) (int, error) {
	c := l.connecting
	return until(stop, func(int) error {
		var conn *cm.Conn
		c.a.control(func(now clock.Instant) {
			c.active = c.a.newEnd(ib.RC)
			conn = c.a.hca.CM().NewConn(c.ask)
			must.Do(c.a.t, c.a.hca.Prepare(now, c.active.qp))
			must.Do(c.a.t, conn.SendREQ(now, &cm.REQParams{
				Service: connectService, QPN: c.active.qp.Num(), RetryCount: 7, RNRRetryCount: 7, ResponseTimeout: 16, MaxRetries: 15,
				Path: cm.Path{Local: c.a.addr, Remote: c.b.addr, MTU: ib.MTU1024, Lifetime: 14},
			}))
		})
		if err := c.awaits(cm.REPReceived); err != nil {
			return err
		}
		err := errors.Join(c.active.post(ib.SendWR{Opcode: ib.WRSend, SGList: c.active.sge(areaCM, 64)}), c.active.succeeds(1))
		if err != nil {
			return err
		}
		c.a.control(func(now clock.Instant) { must.Do(c.a.t, conn.SendDREQ(now, nil)) })
		if err := c.awaits(cm.DREPReceived); err != nil {
			return err
		}
		var passive *end
		c.b.control(func(clock.Instant) { passive = c.passive })
		for _, e := range []*end{c.active, passive} {
			e.control(func(clock.Instant) {
				must.Do(e.t, e.hca.Enter(func() error {
					e.hca.DestroyQP(e.pd, e.qp)
					return nil
				}))
				must.Do(e.t, e.hca.CQs().Destroy(e.cq))
			})
		}
		return nil
	})
}
