package broker

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/internal/lock"
	"github.com/softhca/softhca/internal/packet"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// Limits of the engine.
const (
	maxQueue    = 4096 // MADs
	maxLeaving  = 1024 // peers that are being disconnected at a time
	batchBytes  = 64 << 10
	inbox       = 16
	maxForward  = 1024 // bytes of a packet with a MAD, and its header
	longestWait = time.Second
)

// engine is QP1 of an address that processes share.
type engine struct {
	port  fabric.Port
	start time.Time
	batch *fabric.Batch

	mu            lock.Mutex[lock.BrokerEngine] // guards what follows
	router        *router
	gsi           *gsi.Interface
	agent         *gsi.Agent
	cm            *cm.Manager // without listeners and connections
	early         cm.Early[*visit]
	disconnecting map[uint32]*parting // by the communication ID of the member that has ended
	deliver       func(slot uint8, forwarded []byte)
	in            roce.Packet
	verifier      packet.Verifier
	current       fabric.Datagram // the packet being processed, alone
	buf           [maxForward]byte
}

// newEngine returns the QP1 of a port, which writes connections to a ledger. It calls
// deliver with packets for a member; deliver must not keep them.
func newEngine(port fabric.Port, guid uint64, ledger io.WriterAt, deliver func(slot uint8, forwarded []byte)) (*engine, error) {
	caps := port.Caps()
	e := &engine{
		port: port, start: time.Now(), batch: fabric.NewBatch(batchBytes, caps), router: newRouter(ledger),
		disconnecting: make(map[uint32]*parting), deliver: deliver, early: cm.Early[*visit]{Grace: cm.DefaultListenGrace},
	}
	e.gsi = gsi.New(gsi.Config{
		Addrs: caps.Addrs, SrcPort: caps.SrcPort, MigReq: true, MaxQueue: maxQueue, MaxTransactions: maxLeaving,
		Out: &packet.Writer{Counters: new(counters.Set)},
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
	return e, nil
}

// random returns an unpredictable number.
func random() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.NativeEndian.Uint32(b[:])
}

// do runs f on the router, and makes the engine send the resulting packets.
func (e *engine) do(f func(now clock.Instant, r *router)) {
	e.mu.Lock()
	f(e.now(), e.router)
	e.mu.Unlock()
	e.port.Wake()
}

func (e *engine) now() clock.Instant { return clock.Instant(time.Since(e.start)) }

// run receives and sends until the port is closed.
func (e *engine) run() error {
	ds := make([]fabric.Datagram, inbox)
	for {
		n, blocked, wait, err := e.round(ds)
		if err == nil && n == 0 {
			err = e.port.Wait(wait, true, blocked)
		}
		switch {
		case errors.Is(err, fabric.ErrClosed):
			return nil
		case err != nil:
			return err
		}
	}
}

// round receives and sends. It returns the number of datagrams received, whether the port
// was full, and the time until the next deadline.
func (e *engine) round(ds []fabric.Datagram) (n int, blocked bool, wait time.Duration, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	if n, err = e.port.Receive(ds); err != nil {
		return n, false, 0, err
	}
	for i := range ds[:n] {
		e.receive(now, &ds[i])
	}
	e.takeEarly(now)
	e.gsi.Advance(now)
	for more := true; more; {
		more = e.gsi.Transmit(now, e.batch)
		err = e.port.Send(e.batch)
		if blocked = errors.Is(err, fabric.ErrBlocked); blocked {
			more, err = false, nil
		}
		if err != nil {
			return n, false, 0, err
		}
	}
	return n, blocked, min(max(min(e.gsi.Deadline(), e.early.Deadline()).Sub(now), 0), longestWait), nil
}

// receive checks the packets of a datagram like an adapter, and passes those for QP1 to
// it.
func (e *engine) receive(now clock.Instant, d *fabric.Datagram) {
	e.verifier.Begin()
	for off, k := 0, 0; off < len(d.Bytes); k++ {
		var seg []byte
		seg, off = d.Segment(off)
		if e.in.Parse(seg) != roce.FaultNone || e.in.BTH.DestQP != ib.QPNGSI {
			continue
		}
		if _, ok := e.verifier.Verify(d, seg, k); !ok {
			continue
		}
		e.current = *d
		e.current.Bytes, e.current.Stride = seg, 0
		e.gsi.Receive(now, &e.in, &e.current)
	}
}

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
