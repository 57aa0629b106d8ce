package broker

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/driver"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/internal/packet"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/shard"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// Limits of the engine.
const (
	maxQueue   = 4096 // MADs
	maxLeaving = 1024 // peers that are being disconnected at a time
	maxForward = 1024 // bytes of a packet with a MAD, and its header
)

// engine is QP1 of an address that processes share: a shard without queue pairs.
type engine struct {
	drv    *driver.Driver
	failed chan error // gets the reason why the driver no longer runs

	// The driver's thread guards what follows.
	router        *router
	gsi           *gsi.Interface
	agent         *gsi.Agent
	cm            *cm.Manager // without listeners and connections
	early         cm.Early[*visit]
	disconnecting map[uint32]*disconnecting // by the communication ID of the member that has ended
	deliver       func(slot uint8, forwarded []byte)
	current       fabric.Datagram // of the MAD being processed
	buf           [maxForward]byte
}

// returning is how long a new broker refuses nothing: after the end of the one before it, members
// need time to come back and claim their services again.
const returning = time.Second

// newEngine returns the QP1 of a port whose datagrams hold one packet each, because members get
// whole datagrams. It writes connections to a connection table. It calls deliver with packets for a member;
// deliver must not keep them. The engine owns the port, unless newEngine fails.
func newEngine(port fabric.Port, guid uint64, connTable io.WriterAt, deliver func(slot uint8, forwarded []byte)) (*engine, error) {
	caps := port.Caps()
	e := &engine{
		failed: make(chan error, 1), router: newRouter(connTable),
		disconnecting: make(map[uint32]*disconnecting), deliver: deliver, early: cm.Early[*visit]{Grace: cm.DefaultListenGrace, Settled: clock.Instant(returning)},
	}
	counts := new(counters.Set)
	e.gsi = gsi.New(gsi.Config{
		Ports: [][]netip.Addr{caps.Addrs}, SrcPort: caps.SrcPort, MigReq: true, MaxQueue: maxQueue, MaxTransactions: maxLeaving,
		Out: &packet.Writer{Counters: counts},
	})
	var err error
	e.agent, err = e.gsi.Register(gsi.AgentConfig{
		Class: mad.ClassCM, Version: mad.CMClassVersion, Methods: []mad.Method{mad.MethodSend},
		Info:    mad.ClassPortInfo{BaseVersion: mad.BaseVersion, ClassVersion: mad.CMClassVersion, RespTimeValue: cm.DefaultResponseTimeout},
		Receive: e.take,
	})
	if err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	e.cm = cm.New(cm.Config{
		GUID: guid, Rand: random, MTU: ib.MTU4096, Addrs: caps.Addrs, TID: e.agent.TID, Send: e.agent.Send, Answer: e.agent.Answer,
	})
	env := &qp.Env{
		Settings: qp.Settings{InOrderOnly: true}, Ports: []*qp.Port{{Addrs: caps.Addrs, SrcPort: caps.SrcPort}}, Counters: counts,
	}
	e.drv = driver.New([]fabric.Port{port}, shard.New(env, 0, services{e.gsi, e}), nil, func(cause error) { e.failed <- cause })
	return e, nil
}

// random returns an unpredictable number.
func random() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.NativeEndian.Uint32(b[:])
}

// run starts to read QP1, and to repeat messages that are not answered.
func (e *engine) run() { e.drv.Run() }

// close closes the port. A nil engine has none.
func (e *engine) close() {
	if e != nil {
		_ = e.drv.Close() // the port is of no further use
	}
}

// do runs f on the driver's thread, and sends the resulting packets. It fails once the engine is
// closed or has failed.
func (e *engine) do(f func(now clock.Instant)) error { return e.drv.Do(f) }

// services is QP1 with the requests that wait for a listener.
type services struct {
	*gsi.Interface
	e *engine
}

// Receive notes the datagram of a packet, which forward needs.
func (s services) Receive(now clock.Instant, p *roce.Packet, d *fabric.Datagram) {
	s.e.current = *d
	s.Interface.Receive(now, p, d)
}

// Advance fires the timers that are due.
func (s services) Advance(now clock.Instant) {
	s.e.takeEarly(now)
	s.Interface.Advance(now)
}

// Deadline returns when Advance is next needed.
func (s services) Deadline() clock.Instant { return min(s.Interface.Deadline(), s.e.early.Deadline()) }

// take forwards a message of the connection manager, or answers it like an adapter without
// services and connections.
func (e *engine) take(now clock.Instant, r *gsi.Received) bool {
	e.heard(now, r.MAD, &r.From)
	if e.forward(now, r) || e.keep(now, r) {
		return true
	}
	return e.cm.Receive(now, r)
}

// forward forwards a message and reports whether there is a member for it.
func (e *engine) forward(now clock.Instant, r *gsi.Received) bool {
	to := e.router.route(now, r.MAD, &r.From)
	if to == nil {
		return false
	}
	if n := udp.PutForwarded(e.buf[:], &e.current); n > 0 {
		e.deliver(to.slot, e.buf[:n])
	}
	return true
}
