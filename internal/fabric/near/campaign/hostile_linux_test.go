//go:build !portable

package campaign

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/near/meeting"
	"github.com/softhca/softhca/internal/fabric/near/ring"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/roce"
	"github.com/softhca/softhca/verbs"
)

// target is the memory that a hostile member may write, between memory that it may not.
const (
	guardSize  = 4 << 10
	targetSize = 4 << 10
)

// victim is a UC queue pair that is connected to a hostile member, which nothing moves to ERR.
type victim struct {
	memory []byte
	mr     *verbs.MR
	qp     *verbs.QP
	addr   netip.Addr
}

func newVictim(t *testing.T, s *side, hostile netip.Addr) *victim {
	t.Helper()
	v := &victim{memory: bytes.Repeat([]byte{guard}, 2*guardSize+targetSize), addr: s.ctx.QueryGID(0).Addr()}
	var err error
	v.mr, err = s.pd.RegMR(v.memory[guardSize:][:targetSize], ib.AccessLocalWrite|ib.AccessRemoteWrite)
	must.Do(t, err)
	cq, err := s.ctx.CreateCQ(16, nil)
	must.Do(t, err)
	v.qp, err = s.pd.CreateQP(&verbs.QPInitAttr{Type: ib.UC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}})
	must.Do(t, err)
	must.Do(t, v.qp.ModifyToRTS(verbs.QPAttr{
		Port: 1, AccessFlags: ib.AccessRemoteWrite, PathMTU: ib.MTU1024, DestQPN: hostileQPN, AV: verbs.AHAttr{DGID: ib.GIDFromAddr(hostile), HopLimit: 64, Port: 1},
	}))
	return v
}

const (
	guard      = 0xa5 // fills the memory that no process may write
	hostileQPN = 77
)

// unharmed checks the memory that no process may write.
func (v *victim) unharmed(t *testing.T) {
	t.Helper()
	want := bytes.Repeat([]byte{guard}, guardSize)
	if !bytes.Equal(v.memory[:guardSize], want) || !bytes.Equal(v.memory[guardSize+targetSize:], want) {
		t.Error("the hostile member has written memory outside of the region")
	}
}

// hostile is a process that meets adapters of its user and then does what it wants.
type hostile struct {
	random *rand.Rand
	addr   netip.Addr
	host   *meeting.Host
	met    chan *meeting.Peer
	peer   *meeting.Peer
	sent   int
	last   [64][]byte // records that were sent last, which change while they are read
}

// join makes a hostile process listen at an address of its own.
func join(t *testing.T, random *rand.Rand) *hostile {
	t.Helper()
	h := &hostile{random: rand.New(rand.NewPCG(random.Uint64(), 5)), addr: netip.MustParseAddr(loopback()), met: make(chan *meeting.Peer, 1)}
	env := device.ProcessEnvironment()
	name := func(a netip.Addr) string {
		if secret := env.Secret(); secret != nil {
			return secret.Name(a)
		}
		return fmt.Sprintf("%d/%s", os.Geteuid(), a)
	}
	var err error
	h.host, err = meeting.Listen(meeting.Config{Self: meeting.Identity{Addr: h.addr, Generation: 9}, Name: name, Ring: 1 << 18, Met: func(p *meeting.Peer) { h.met <- p }})
	must.Do(t, err)
	return h
}

// meet makes the hostile process meet an adapter.
func (h *hostile) meet(t *testing.T, v *victim) {
	t.Helper()
	eventually(t, "the adapter meets a member", func() bool {
		return h.host.Invite(t.Context(), meeting.Key{Addr: v.addr}) == nil
	})
	h.peer = <-h.met
}

// leave ends the meeting.
func (h *hostile) leave(t *testing.T) {
	t.Helper()
	h.last = [len(h.last)][]byte{}
	must.Do(t, h.peer.Close())
}

// packet returns a packet to a victim with an intact checksum. The address, length and key of a WRITE are
// good or bad.
func (h *hostile) packet(v *victim) []byte {
	r := h.random
	n := 4 * r.IntN(64)
	p := &roce.Packet{Payload: make([]byte, n)}
	for i := range p.Payload {
		p.Payload[i] = byte(r.Uint32())
	}
	op := []roce.Opcode{roce.UCRDMAWriteOnly, roce.UCRDMAWriteOnly, roce.UCRDMAWriteFirst, roce.UCRDMAWriteLast, roce.UCSendOnly, roce.RCRDMAWriteOnly, roce.UDSendOnly}[r.IntN(7)]
	p.BTH = roce.BTH{Opcode: op, PKey: ib.PKeyDefault, PSN: ib.NewPSN(r.Uint32()), DestQP: v.qp.QPN()}
	p.RETH = roce.RETH{VA: v.mr.Addr() + r.Uint64N(targetSize-256), RKey: v.mr.RKey(), Length: uint32(n)}
	switch r.IntN(8) {
	case 0:
		p.RETH.VA += targetSize
	case 1:
		p.RETH.VA -= targetSize
	case 2:
		p.RETH.Length = r.Uint32()
	case 3:
		p.RETH.RKey = ib.RKey(r.Uint32())
	}
	b := make([]byte, roce.Size(op, n))
	p.Build(b)
	roce.Seal(b, roce.NewPrefix(h.addr, v.addr, fabric.RoCEPort, fabric.RoCEPort, len(b)).WithID(0))
	return b
}

// record puts a record into the ring. It returns its bytes there, nil if there is no room.
func (h *hostile) record(b []byte, stride, count int) []byte {
	room := h.peer.Out.Reserve(len(b), len(b))
	if room == nil {
		return nil
	}
	copy(room, b)
	h.peer.Out.Commit(len(b), stride, count, h.random.Uint64())
	if h.peer.Out.Publish() {
		_ = h.peer.Wake() // the adapter may have ended the meeting
	}
	h.sent++
	h.last[h.sent%len(h.last)] = room
	return room
}

// The attacks. Each is called again and again.
var attacks = []struct {
	name   string
	attack func(*hostile, *victim)
}{
	{"packets", func(h *hostile, v *victim) {
		b := h.packet(v)
		h.record(b, len(b), 1)
	}},
	{"headers that change while they are read", func(h *hostile, v *victim) {
		b := h.packet(v)
		h.record(b, len(b), 1)
		other := h.packet(v)
		for range 64 {
			at := h.last[h.random.IntN(len(h.last))]
			if h.random.IntN(2) == 0 {
				copy(at, other)
			} else if len(at) > 0 {
				at[h.random.IntN(min(len(at), 40))] ^= byte(h.random.Uint32())
			}
		}
	}},
	{"lengths that do not fit", func(h *hostile, v *victim) {
		var b []byte
		for range 1 + h.random.IntN(20) {
			b = append(b, h.packet(v)...)
		}
		b = b[:1+h.random.IntN(len(b))]
		stride := 1 + h.random.IntN(len(b))
		if least := (len(b) + maxSegments - 1) / maxSegments; stride < least {
			stride = least
		}
		h.record(b, stride, (len(b)+stride-1)/stride)
	}},
	{"long records", func(h *hostile, v *victim) {
		b := append(h.packet(v), make([]byte, h.random.IntN(1<<17))...)
		h.record(b, len(b), 1)
	}},
	{"garbage", func(h *hostile, v *victim) {
		b := make([]byte, 1+h.random.IntN(300))
		for i := range b {
			b[i] = byte(h.random.Uint32())
		}
		h.record(b, len(b), 1)
	}},
}

// maxSegments is the maximum number of packets in a record.
const maxSegments = 1 << 10

// TestHostileMembers has a process that an adapter has met attack it, while the adapter exchanges data with
// another process. The data is right, and no memory outside of regions changes.
func TestHostileMembers(t *testing.T) {
	for _, c := range attacks {
		t.Run(c.name, func(t *testing.T) {
			random := draw(t)
			must.Do(t, warm(loopback()))
			before := look(os.Getpid())
			own, err := openSide(loopback())
			must.Do(t, err)
			addr := loopback()
			s := &stage{&pair{t: t, own: own, other: start(t, addr)}, random, 0, addr}
			s.meet()
			h := join(t, random)
			v := newVictim(t, own, h.addr)
			h.meet(t, v)
			var attacking sync.WaitGroup
			done := make(chan struct{})
			attacking.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
						c.attack(h, v)
						h.drain()
					}
				}
			})
			for range *rounds {
				s.begin(patient, s.job(1000))
				s.finish()
			}
			close(done)
			attacking.Wait()
			if h.sent < 100 {
				t.Errorf("only %d records were sent: the test shows nothing", h.sent)
			}
			t.Logf("%d records", h.sent)
			if c.name == "packets" && bytes.Count(v.memory, []byte{guard}) > len(v.memory)-100 {
				t.Error("no WRITE has arrived: the test shows nothing")
			}
			v.unharmed(t)
			h.leave(t)
			must.Do(t, h.host.Close())
			s.byMemory()
			s.other.close(t)
			must.Do(t, own.ctx.Close())
			leavesNothing(t, before)
		})
	}
}

// drain reads what the adapter sends.
func (h *hostile) drain() {
	var r ring.Record
	for h.peer.In.Next(&r) {
	}
	h.peer.In.Release()
}

// TestNeverReads has an adapter send to a process that never reads, while it exchanges data with another
// process. Only what is for the first is lost.
func TestNeverReads(t *testing.T) {
	random := draw(t)
	own, err := openSide(loopback())
	must.Do(t, err)
	t.Cleanup(func() { _ = own.ctx.Close() }) // in a test that fails it is open
	addr := loopback()
	s := &stage{&pair{t: t, own: own, other: start(t, addr)}, random, 0, addr}
	s.meet()
	h := join(t, random)
	v := newVictim(t, own, h.addr)
	h.meet(t, v)
	cq, err := own.ctx.CreateCQ(16, nil)
	must.Do(t, err)
	qp, err := own.pd.CreateQP(&verbs.QPInitAttr{Type: ib.UC, SendCQ: cq, RecvCQ: cq, SQSig: ib.SigAll, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}})
	must.Do(t, err)
	must.Do(t, qp.ModifyToRTS(verbs.QPAttr{Port: 1, PathMTU: ib.MTU1024, DestQPN: hostileQPN, AV: verbs.AHAttr{DGID: ib.GIDFromAddr(h.addr), HopLimit: 64, Port: 1}}))
	lost := func() uint64 { return counter(t, own, "port_overflows") }
	wcs := make([]verbs.WC, 4)
	for end := time.Now().Add(waitLimit); lost() == 0; {
		if err := qp.PostSend(verbs.SendWR{Opcode: ib.WRSend, SGList: []verbs.SGE{own.mr.SGE(0, maxMessage)}}); err != nil {
			must.Fail(t, err, ib.ENOMEM, "post")
		}
		_, err := cq.Poll(wcs)
		must.Do(t, err)
		if time.Now().After(end) {
			t.Fatal("the ring is never full")
		}
	}
	s.begin(patient, s.job(1000))
	for finished := false; !finished; {
		select {
		case err := <-s.ended:
			must.Do(t, err)
			finished = true
		default:
			_ = qp.PostSend(verbs.SendWR{Opcode: ib.WRSend, SGList: []verbs.SGE{own.mr.SGE(0, maxMessage)}}) // the queue may be full
			_, err := cq.Poll(wcs)
			must.Do(t, err)
		}
	}
	s.other.tell(t, order{Do: "wait"})
	s.byMemory()
	h.leave(t)
	must.Do(t, h.host.Close())
	s.other.close(t)
}

// counter returns the value of a counter of an adapter.
func counter(t *testing.T, s *side, name string) uint64 {
	t.Helper()
	all, err := s.ctx.Counters()
	must.Do(t, err)
	for _, c := range all {
		if c.Name == name {
			return c.Value
		}
	}
	t.Fatalf("no counter %s", name)
	return 0
}
