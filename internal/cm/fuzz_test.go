package cm

import (
	"math/rand/v2"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
)

// The program of FuzzReceive is a list of operations of opSize bytes: an input,
// a connection, and two bytes of parameters.
const opSize = 4

// After the inputs of the machine come these operations.
const (
	opRaw    = byte(numInputs) + iota // a MAD whose bytes are chosen
	opLater                           // let a time pass
	opListen                          // close the listener, or open it
	opReact                           // sets what the consumer's handler does from now on
	numOps
)

// fuzzer runs such a program.
type fuzzer struct {
	*rig
	conns    []*Conn
	reaction byte
	depth    int
}

// FuzzReceive gives a manager messages, calls and time in any order, with
// consumers that do anything in their handlers. It must not panic, what it
// holds must be consistent after each step and bounded, and nothing may be left
// when all is over.
func FuzzReceive(f *testing.F) {
	o := func(on Input, which, a, b byte) []byte { return []byte{byte(on), which, a, b} }
	program := func(ops ...[]byte) (p []byte) {
		for _, o := range ops {
			p = append(p, o...)
		}
		return p
	}
	later := []byte{opLater, 0, 0, 0}
	setUp := program(o(CallREQ, 0, 0, 0), o(MsgREP, 0, 0, 0), o(CallRTU, 0, 0, 0))
	accept := program(o(MsgREQ, 0, 1, 0), o(CallREP, 1, 0, 0), o(MsgRTU, 1, 0, 0))
	f.Add(program(setUp, o(MsgREP, 0, 0, 0), o(CallDREQ, 0, 0, 0), o(MsgDREP, 0, 0, 0), later))
	f.Add(program(accept, o(MsgREQ, 0, 1, 0), o(MsgDREQ, 1, 0, 0), o(CallDREP, 1, 0, 0), o(MsgDREQ, 1, 0, 0)))
	f.Add(program(setUp, o(CallLAP, 0, 0, 0), o(MsgMRAOther, 0, 0, 0), later, o(MsgAPR, 0, 0, 0), o(MsgREJ, 0, 0, 0)))
	f.Add(program(accept, o(MsgLAP, 1, 0, 0), o(CallMRA, 1, 0, 0), o(MsgLAP, 1, 1, 0), o(CallAPR, 1, 0, 0), o(CallDestroy, 1, 0, 0)))
	f.Add(program(o(CallSIDRREQ, 0, 0, 0), later, o(MsgSIDRREP, 0, 0, 0), o(MsgSIDRREQ, 0, 0, 0), o(CallSIDRREP, 1, 0, 0)))
	f.Add(program(setUp, o(MsgREQ, 0, 1, 1), o(MsgREJStale, 0, 0, 0), later, later, o(CallREQ, 0, 0, 0), o(MsgREJ, 0, 2, 0)))
	for r := range byte(8) {
		f.Add(program([]byte{opReact, 0, r, 0}, accept, setUp, o(MsgDREQ, 0, 0, 0), later, o(MsgREQ, 0, 2, 2), later))
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		x := newFuzzer(t)
		for i := 0; i+opSize <= len(program) && i < 400*opSize; i += opSize {
			x.do([opSize]byte(program[i:]))
			if err := invariants(x.m); err != nil {
				t.Fatalf("after operation %d, %v: %v", i/opSize, program[i:i+opSize], err)
			}
		}
		x.finish()
	})
}

func newFuzzer(t *testing.T) *fuzzer {
	x := &fuzzer{rig: newLimitedRig(t, Limits{MaxConns: 12, MaxListeners: 1, MaxHalfOpen: 6})}
	x.toggleListener()
	for range 3 {
		x.conns = append(x.conns, x.m.NewConn(x.onEvent))
	}
	return x
}

func (x *fuzzer) toggleListener() {
	if l := x.m.listeners[service]; l != nil {
		l.Close()
		return
	}
	_, err := x.m.Listen(service, x.onEvent)
	x.rig.do(err)
}

func (x *fuzzer) do(op [opSize]byte) {
	c := x.conns[int(op[1])%len(x.conns)]
	switch on := op[0] % numOps; {
	case on == opRaw:
		x.raw(c, op)
	case on == opLater && op[2]&1 == 0 && x.m.Deadline() != clock.Never:
		x.fire()
	case on == opLater:
		x.now = x.now.Add(mad.Timeout(op[2] % 24))
		x.m.Advance(x.now)
	case on == opListen:
		x.toggleListener()
	case on == opReact:
		x.reaction = op[2]
	case Input(on) < firstMsg:
		x.call(c, Input(on), op)
	case Input(on) < firstTimer:
		x.tell(c, Input(on), op)
	}
	x.clear()
}

// call makes the calls of the state machine's test, except those that a
// consumer must not make: on a connection that it has destroyed.
func (x *fuzzer) call(c *Conn, on Input, op [opSize]byte) {
	if c.destroyed {
		return
	}
	if err := call(x.rig, c, on); err != nil && on == CallDestroy {
		x.t.Fatal(err)
	}
	_, _, _ = c.QPAttr(ib.QPState(op[2]))
}

// tell sends a message that is valid except for the errors that the operation
// chooses.
func (x *fuzzer) tell(c *Conn, on Input, op [opSize]byte) {
	from := x.peer
	if op[3]&0x40 != 0 {
		from = from.Next()
	}
	about := mad.Which(op[2] & 3)
	peer := c.remoteID
	if peer == 0 || op[3]&0x80 != 0 {
		peer = uint32(op[2])
	}
	switch on {
	case MsgREQ:
		q := x.reqN(from, int(op[2]))
		q.LocalQPN += ib.QPN(op[3] & 7) // may be that of another connection
		x.receiveFrom(from, mad.AttrREQ, q)
	case MsgREP:
		p := x.rep(c)
		p.LocalCommID, p.LocalQPN = peer, ib.QPN(op[3]&7)
		x.receiveFrom(from, mad.AttrREP, p)
	case MsgMRAREQ, MsgMRAREP, MsgMRAOther:
		a := x.mra(c, about)
		a.LocalCommID, a.ServiceTimeout = peer, op[3]&31
		x.receiveFrom(from, mad.AttrMRA, a)
	case MsgREJ, MsgREJStale:
		j := x.rej(c, about, mad.RejReason(op[3]&31))
		j.LocalCommID = peer
		if op[2]&4 != 0 { // as a timeout: named by the node
			j.RemoteCommID, j.InfoLength, j.Info[0], j.Info[7] = 0, 8, 2, 2
		}
		x.receiveFrom(from, mad.AttrREJ, j)
	case MsgDREQ:
		d := x.dreq(c)
		d.LocalCommID = peer
		x.receiveFrom(from, mad.AttrDREQ, d)
	case MsgRTU, MsgDREP:
		attr := mad.AttrRTU
		if on == MsgDREP {
			attr = mad.AttrDREP
		}
		x.receiveFrom(from, attr, &mad.RTU{LocalCommID: peer, RemoteCommID: c.localID})
	case MsgLAP:
		l := x.lap(c)
		l.LocalCommID, l.Alternate.FlowLabel = peer, uint32(op[2])
		x.receiveFrom(from, mad.AttrLAP, l)
	case MsgAPR:
		x.receiveFrom(from, mad.AttrAPR, &mad.APR{LocalCommID: peer, RemoteCommID: c.localID, Status: mad.APRStatus(op[2])})
	case MsgSIDRREQ:
		q := x.sidrReq()
		q.RequestID, q.ServiceID = uint32(op[2]), service+mad.ServiceID(op[3]&1)
		x.receiveFrom(from, mad.AttrSIDRREQ, q)
	case MsgSIDRREP:
		x.receiveFrom(from, mad.AttrSIDRREP, &mad.SIDRREP{RequestID: c.localID, Status: mad.SIDRStatus(op[2])})
	}
}

// raw sends a message filled with one byte, except for the IDs.
func (x *fuzzer) raw(c *Conn, op [opSize]byte) {
	var d mad.MAD
	for i := range d.Data() {
		d.Data()[i] = op[3]
	}
	m := rawMessage{d, c.remoteID, c.localID}
	x.receive(mad.AttrREQ+mad.AttrID(op[2])%mad.AttrID(numKinds), &m)
}

type rawMessage struct {
	bytes         mad.MAD
	local, remote uint32
}

// Put writes the bytes, and the IDs where most messages have them.
func (r *rawMessage) Put(m *mad.MAD) {
	(&mad.RTU{LocalCommID: r.local, RemoteCommID: r.remote}).Put(m)
	copy(m.Data()[8:], r.bytes.Data()[8:])
}

// onEvent is the consumer: it records new connections, and its handler does what
// the program's last operation chose.
func (x *fuzzer) onEvent(now clock.Instant, c *Conn, ev *Event) {
	if c.destroyed {
		x.t.Fatalf("a consumer that is gone hears %v", ev.Type)
	}
	if ev.Type == REQReceived || ev.Type == SIDRREQReceived {
		x.conns = append(x.conns, c)
	}
	if x.depth > 3 {
		return
	}
	x.depth++
	defer func() { x.depth-- }()
	switch x.reaction % 9 {
	case 1:
		c.Destroy(now)
	case 2:
		if ev.Type == REQReceived || ev.Type == SIDRREQReceived {
			c.Forget(now)
		}
	case 3:
		for on := CallREQ; on < CallDestroy; on++ {
			_ = call(x.rig, c, on)
		}
	case 4:
		_ = c.SendREP(now, x.repParams())
		_ = c.SendRTU(now, nil)
		_ = c.SendDREP(now, nil)
	case 5:
		_ = c.SendREJ(now, &REJParams{Reason: mad.RejConsumer})
	case 6:
		_ = c.PrepareMRA(now, 20, nil)
	case 7: // begins a new connection, or gives up another
		_ = c.SendREQ(now, x.reqParams())
	case 8:
		if d := x.conns[0]; !d.destroyed {
			d.Destroy(now)
		}
	}
}

// finish ends everything and shows that nothing is left.
func (x *fuzzer) finish() {
	x.reaction = 0
	for _, c := range x.conns {
		c.Destroy(x.now)
	}
	x.quiet()
	must.Do(x.t, empty(x.m))
	for _, c := range x.conns {
		if c.state != Idle || c.timer.At() != clock.Never || c.halfOpen {
			x.t.Fatalf("a connection is left in %v", c.state)
		}
	}
}

// TestC6_RandomPrograms runs random programs.
func TestC6_RandomPrograms(t *testing.T) {
	for seed := uint64(1); seed <= 500 && !t.Failed(); seed++ {
		t.Run("", func(t *testing.T) {
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 3))
			x := newFuzzer(t)
			for range 150 {
				few := rng.Uint32() // a mask: most errors of the last byte are left out
				x.do([opSize]byte{byte(rng.IntN(int(numOps))), byte(rng.IntN(8)), byte(rng.Uint32()), byte(few) & byte(few>>8)})
				must.Do(t, invariants(x.m))
			}
			x.finish()
		})
	}
}
