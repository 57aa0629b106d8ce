package hca_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/ring"
	"github.com/softhca/softhca/roce"
)

// recorder is an allocator of queues that shows them to the test, as a program
// that writes them by itself has them.
type recorder struct {
	t      testing.TB
	blocks [][]byte // in use, in the order in which they were given
}

// recorderGuard is how many bytes stand before and behind each block.
const recorderGuard = 256

func (r *recorder) allocator() ring.Allocator {
	return ring.Allocator{
		Alloc: func(n int) []byte {
			words := make([]uint64, (n+7)/8+2*recorderGuard/8)
			b := unsafe.Slice((*byte)(unsafe.Pointer(&words[recorderGuard/8])), n)
			r.blocks = append(r.blocks, b)
			return b
		},
		Free: func(b []byte) {
			i := slices.IndexFunc(r.blocks, func(have []byte) bool { return &have[0] == &b[0] && len(have) == len(b) })
			if i < 0 {
				r.t.Fatal("memory of a queue is given back that was not given")
			}
			r.blocks = slices.Delete(r.blocks, i, i+1)
		},
	}
}

// check fails the test if bytes around a block were written.
func (r *recorder) check() {
	for _, b := range r.blocks {
		first := unsafe.Pointer(&b[0])
		before := unsafe.Slice((*byte)(unsafe.Add(first, -recorderGuard)), recorderGuard)
		behind := unsafe.Slice((*byte)(unsafe.Add(first, (len(b)+7)/8*8)), recorderGuard)
		if !bytes.Equal(before, make([]byte, recorderGuard)) || !bytes.Equal(behind, make([]byte, recorderGuard)) {
			r.t.Fatal("the adapter wrote around a queue")
		}
	}
}

// wild is two adapters with two connections each: a healthy one, and one whose
// queues on side 0 a possibly broken program writes.
type wild struct {
	*rig.Rig
	rec     *recorder
	healthy [2]*qp.QP
	pd      [2]*hca.PD // of the victim and its peer
	cq      [2]*qp.CQ
	srq     *qp.SRQ
	ah      [2]ib.AHHandle
	mem     [2]*wildMemory
	send    []byte // the victim's send queue
	recv    []byte // the victim's receive queue, its own or shared
}

// wildMemory is what the victim or its peer has registered: a page that all
// may use, with inaccessible pages on both sides, and a page to read from.
type wildMemory struct {
	buf, locked []byte
	open, read  *memory.Region
}

const (
	wildPage = 4096
	wildOpen = 0x10000 // address of the open page
	wildRead = 0x20000 // address of the page to read from
	wildQKey = 0x1111

	wildReceive uint64 = 1 << 63 // in the WRID of a writer's receives
)

func newWildMemory(t testing.TB, pd *hca.PD, seed uint64) *wildMemory {
	t.Helper()
	m := &wildMemory{buf: make([]byte, 3*wildPage), locked: make([]byte, wildPage)}
	rig.Fill(m.buf, seed)
	copy(m.locked, m.buf)
	var err error
	m.open, err = pd.RegMR(memory.RegionConfig{Buf: m.buf[wildPage : 2*wildPage], IOVA: wildOpen, Access: ib.AccessLocalWrite | ib.AccessRemote})
	rig.Must(t, err)
	m.read, err = pd.RegMR(memory.RegionConfig{Buf: m.locked, IOVA: wildRead, Access: ib.AccessRemoteRead})
	rig.Must(t, err)
	return m
}

// closed returns what must not change.
func (m *wildMemory) closed() []byte {
	return slices.Concat(m.buf[:wildPage], m.buf[2*wildPage:], m.locked)
}

// sge returns an element of the open page.
func (m *wildMemory) sge(off, n uint32) ib.SGE {
	return ib.SGE{Addr: wildOpen + uint64(off), Length: n, LKey: m.open.LKey()}
}

// newWild returns a victim of the given service and its peer in RTS, with
// receives posted at the peer.
func newWild(t testing.TB, typ ib.QPType, shared bool, a ring.Allocator, rec *recorder) *wild {
	t.Helper()
	w := &wild{Rig: &rig.Rig{T: t}, rec: rec}
	for i := range w.Sides {
		c := rig.Config{Type: ib.RC, Cap: rig.Cap, Bytes: wildPage}
		if i == 0 {
			c.HCA.Queues = a
		}
		w.Sides[i] = c.NewSide(t, byte(i+1))
	}
	w.Connect(ib.MTU1024)
	for i, s := range w.Sides {
		w.healthy[i] = s.QP
		var err error
		w.pd[i], err = s.HCA.AllocPD()
		rig.Must(t, err)
		w.cq[i], err = s.HCA.CreateCQ(256, nil)
		rig.Must(t, err)
		w.mem[i] = newWildMemory(t, w.pd[i], uint64(i+1))
		w.ah[i], err = w.pd[i].CreateAH(&ib.AHAttr{DGID: ib.GIDFromAddr(w.Sides[1-i].Addr), HopLimit: 64, Port: 1})
		rig.Must(t, err)
		c := hca.QPConfig{Type: typ, SendCQ: w.cq[i], RecvCQ: w.cq[i], Cap: rig.Cap}
		if i == 0 && shared {
			w.srq, err = w.pd[i].CreateSRQ(rig.Cap.MaxRecvWR, rig.Cap.MaxRecvSGE, 0)
			rig.Must(t, err)
			c.SRQ = w.srq
		}
		s.QP, err = s.HCA.CreateQP(w.pd[i], c)
		rig.Must(t, err)
		if i == 0 {
			last := rec.blocks[len(rec.blocks)-2:]
			if w.send, w.recv = last[0], last[1]; shared {
				w.send, w.recv = last[1], last[0]
			}
		}
	}
	w.ready()
	return w
}

// ready takes the victim and its peer from RESET to RTS.
func (w *wild) ready() {
	w.T.Helper()
	for i := range w.Sides {
		a := w.Attrs(i, ib.MTU1024)
		a.QKey, a.RetryCnt, a.RNRRetry = wildQKey, 1, 1
		w.Walk(i, a, ib.RTS)
	}
	for i := range uint64(8) {
		w.post1(ib.RecvWR{WRID: i, SGList: []ib.SGE{w.mem[1].sge(2048, 1024)}})
	}
}

// post1 posts a receive at the peer.
func (w *wild) post1(wr ib.RecvWR) {
	w.T.Helper()
	_, err := w.Sides[1].QP.PostRecv(wr)
	rig.Must(w.T, err)
}

// message is a legal message from side i to the other one.
func (w *wild) message(i int, op ib.WROpcode, n uint32) ib.SendWR {
	peer := w.Sides[1-i]
	return ib.SendWR{
		WRID: 77, Opcode: op, Flags: ib.SendSignaled, SGList: []ib.SGE{w.mem[i].sge(0, n)},
		RemoteAddr: wildOpen, RKey: w.mem[1-i].open.RKey(), AH: w.ah[i], RemoteQPN: peer.QP.Num(), RemoteQKey: wildQKey,
	}
}

// provoke has the peer send what takes receives of the victim.
func (w *wild) provoke() {
	ops := []ib.WROpcode{ib.WRSend, ib.WRRDMAWriteWithImm, ib.WRSendWithImm, ib.WRSend}
	for k, n := range []uint32{100, 200, 0, 1024} {
		op := ops[k]
		if w.Sides[1].QP.Type() == ib.UD {
			op = ib.WRSend
		}
		w.Post(1, w.message(1, op, n))
	}
}

// polled returns the completions of side i's victim or peer.
func (w *wild) polled(i int) []ib.WC {
	wcs := make([]ib.WC, 256)
	return wcs[:w.cq[i].Poll(wcs)]
}

// settle runs until nothing happens any more.
func (w *wild) settle() { w.Run(2*time.Second, func() bool { return false }) }

// nurse moves messages both ways over the healthy connection and fails the
// test if one of them fails.
func (w *wild) nurse() {
	w.T.Helper()
	for i, q := range w.healthy {
		s, peer := w.Sides[i], w.Sides[1-i]
		_, err := w.healthy[1-i].PostRecv(ib.RecvWR{SGList: []ib.SGE{peer.SGE(3000, 64)}})
		rig.Must(w.T, err)
		base := ib.SendWR{SGList: []ib.SGE{s.SGE(0, 64)}, RemoteAddr: peer.MR.Addr() + 2000, RKey: peer.MR.RKey()}
		for _, op := range []ib.WROpcode{ib.WRSend, ib.WRRDMAWrite, ib.WRRDMARead} {
			wr := base
			if wr.Opcode = op; op == ib.WRRDMARead {
				wr.SGList = []ib.SGE{s.SGE(1000, 64)}
			}
			_, err := q.PostSend(wr)
			rig.Must(w.T, err)
		}
		s.HCA.Single().RingDoorbell(q)
	}
}

// healthyAll fails the test unless the messages of nurse have arrived.
func (w *wild) healthyAll() {
	w.T.Helper()
	for i := range w.Sides {
		wcs := w.Poll(i)
		for _, wc := range wcs {
			if wc.Status != ib.WCSuccess {
				w.T.Fatalf("side %d: a message of the healthy connection ended with %v", i, wc.Status)
			}
		}
		if len(wcs) != 4 || w.healthy[i].State() != ib.RTS {
			w.T.Fatalf("side %d: %d of 4 messages of the healthy connection are complete, in state %v", i, len(wcs), w.healthy[i].State())
		}
	}
}

// wildInput is written into the victim's queues.
type wildInput struct {
	typ                ib.QPType
	shared             bool
	send, recv         []byte // of the entries, from the first on
	sendProd, recvProd uint32
	restless           bool // it is written again and again, each time shifted
}

// wildOutcome is what became of it.
type wildOutcome struct {
	state ib.QPState
	wcs   []ib.WC
}

// wildStatuses are how a work request may end, whatever is written.
var wildStatuses = []ib.WCStatus{
	ib.WCSuccess, ib.WCLocQPOpErr, ib.WCLocProtErr, ib.WCLocLenErr, ib.WCLocAccessErr, ib.WCWRFlushErr,
	ib.WCRemAccessErr, ib.WCRemInvReqErr, ib.WCRemOpErr, ib.WCRetryExcErr, ib.WCRNRRetryExcErr, ib.WCMWBindErr,
}

// attack writes the input, lets both adapters work on it, and checks what must
// hold whatever it is: no memory but the open pages changes, the other
// connection and the adapter go on, and after RESET the victim works.
func (in *wildInput) attack(t testing.TB) wildOutcome {
	rec := &recorder{t: t}
	w := newWild(t, in.typ, in.shared, rec.allocator(), rec)
	closed := [2][]byte{w.mem[0].closed(), w.mem[1].closed()}
	blocks := len(rec.blocks)
	w.nurse()
	w.scribble(in)
	if in.restless {
		w.Drop = w.shifting(in)
	}
	w.provoke()
	w.Sides[0].HCA.Single().RingDoorbell(w.Sides[0].QP)
	w.settle()
	w.Drop = nil

	out := wildOutcome{w.Sides[0].QP.State(), w.polled(0)}
	for _, wc := range out.wcs {
		if !slices.Contains(wildStatuses, wc.Status) || wc.QPN != w.Sides[0].QP.Num() {
			t.Fatalf("a wild work request ended with %+v", wc)
		}
		if out.state == ib.RTS && wc.Status != ib.WCSuccess {
			t.Fatalf("a work request ended with %v, and the queue pair is still in RTS", wc.Status)
		}
	}
	if st := out.state; st != ib.RTS && st != ib.ERR && (st != ib.SQE || in.typ == ib.RC) {
		t.Fatalf("a wild work request leaves the queue pair in %v", st)
	}
	w.healthyAll()
	w.nurse()
	w.settle()
	w.healthyAll()
	w.recover()
	for i := range closed {
		if !bytes.Equal(w.mem[i].closed(), closed[i]) {
			t.Fatalf("side %d: memory that is not open was written", i)
		}
	}
	rec.check()
	w.Sides[0].HCA.DestroyQP(w.pd[0], w.Sides[0].QP)
	if w.srq != nil {
		rig.Must(t, w.pd[0].DestroySRQ(w.srq))
	}
	if len(rec.blocks) != blocks-2 {
		t.Fatalf("%d blocks of the victim's two queues were given back", blocks-len(rec.blocks))
	}
	return out
}

// scribble writes the input over the victim's queues.
func (w *wild) scribble(in *wildInput) {
	for _, q := range []struct {
		queue, bytes []byte
		prod         uint32
	}{{w.send, in.send, in.sendProd}, {w.recv, in.recv, in.recvProd}} {
		copy(q.queue[ring.HeaderSize:], q.bytes)
		(*ring.Header)(unsafe.Pointer(&q.queue[0])).Prod.Store(q.prod)
	}
}

// shifting returns what writes the bytes of in over the entries with every
// packet that moves, from another one on.
func (w *wild) shifting(in *wildInput) func(int, *roce.Packet) bool {
	shift := 0
	return func(int, *roce.Packet) bool {
		shift += 8
		copy(w.send[ring.HeaderSize:], in.send[min(shift, len(in.send)):])
		copy(w.recv[ring.HeaderSize:], in.recv[min(shift, len(in.recv)):])
		return false
	}
}

// recover resets the victim and its peer and shows that they work. A shared
// receive queue is not reset with a queue pair.
func (w *wild) recover() {
	w.T.Helper()
	for _, s := range w.Sides {
		rig.Must(w.T, s.QP.Modify(w.Now, &ib.QPAttr{State: ib.RESET}, ib.AttrState))
	}
	w.polled(0)
	w.polled(1)
	w.ready()
	want := 1
	w.Post(0, w.message(0, ib.WRSend, 50))
	if w.srq == nil {
		want = 2
		w.recv1(0)
		w.Post(1, w.message(1, ib.WRSend, 60))
	}
	w.settle()
	wcs := w.polled(0)
	for _, wc := range wcs {
		if wc.Status != ib.WCSuccess {
			w.T.Fatalf("after RESET a work request ended with %v", wc.Status)
		}
	}
	if len(wcs) != want || w.Sides[0].QP.State() != ib.RTS {
		w.T.Fatalf("after RESET %d of %d work requests are complete, in state %v", len(wcs), want, w.Sides[0].QP.State())
	}
}

// recv1 posts a receive at side i that has room for anything here.
func (w *wild) recv1(i int) {
	w.T.Helper()
	w.Rig.Recv(i, ib.RecvWR{WRID: 88, SGList: []ib.SGE{w.mem[i].sge(1024, 2048)}})
}

// wildWriter draws entries that are legal but for a few fields, so that they
// get far.
type wildWriter struct {
	*rand.Rand
	keys [2][3]uint32 // by side: of the open page, the page to read from, the healthy region
	qpn  ib.QPN       // of the peer
	ah   ib.AHHandle
}

// newWildWriter returns a writer with the objects of every victim of the
// service, which are always the same.
func newWildWriter(t testing.TB, typ ib.QPType, shared bool, seed uint64) *wildWriter {
	rec := &recorder{t: t}
	w := newWild(t, typ, shared, rec.allocator(), rec)
	g := &wildWriter{Rand: rand.New(rand.NewPCG(seed, 9)), qpn: w.Sides[1].QP.Num(), ah: w.ah[0]}
	for i, m := range w.mem {
		g.keys[i] = [3]uint32{uint32(m.open.LKey()), uint32(m.read.LKey()), uint32(w.Sides[i].MR.LKey())}
	}
	return g
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func (g *wildWriter) addr() uint64 {
	return pick(g.Rand, wildOpen+uint64(g.IntN(4200)), wildOpen-uint64(g.IntN(64)), wildRead, g.Uint64(), ^uint64(g.IntN(64)))
}

func (g *wildWriter) length() uint32 {
	return pick(g.Rand, 0, 8, 64, 1024, wildPage, wildPage+1, 1<<31, 1<<31+1, ^uint32(0), uint32(g.IntN(5000)), g.Uint32())
}

func (g *wildWriter) key(side int) uint32 {
	return pick(g.Rand, g.keys[side][0], g.keys[side][1], g.keys[side][2], g.keys[1-side][0], 0, g.Uint32())
}

func (g *wildWriter) sges(n int) (s []ib.SGE, total uint32) {
	for range n {
		e := ib.SGE{Addr: wildOpen + uint64(g.IntN(1024)), Length: uint32(g.IntN(1024)), LKey: ib.LKey(g.keys[0][0])}
		switch g.IntN(12) {
		case 0:
			e.Addr = g.addr()
		case 1:
			e.Length = g.length()
		case 2:
			e.LKey = ib.LKey(g.key(0))
		}
		s, total = append(s, e), total+e.Length
	}
	return s, total
}

// put writes v into b.
func put[T any](b []byte, v T) {
	copy(b, unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v)))
}

// sends draws n entries of a send queue with the given stride.
func (g *wildWriter) sends(n, stride int) []byte {
	b := make([]byte, n*stride)
	for i := range n {
		e := b[i*stride:][:stride]
		for k := range e {
			e[k] = byte(g.Uint32())
		}
		if g.IntN(20) == 0 {
			continue
		}
		k := g.IntN(int(rig.Cap.MaxSendSGE) + 1)
		s, total := g.sges(k)
		w := ring.SendWQE{
			WRID: g.Uint64() &^ wildReceive, RemoteAddr: wildOpen, CompareAdd: g.Uint64(), Swap: g.Uint64(), Length: total, RKey: ib.RKey(g.keys[1][0]),
			Imm: g.Uint32(), Opcode: ib.WROpcode(g.IntN(10)), Flags: ib.SendFlags(g.IntN(8)), NumSGE: uint8(k),
		}
		g.spoilSend(&w)
		put(e, w)
		for j := range s {
			put(e[unsafe.Sizeof(w)+uintptr(j)*16:], s[j])
		}
		to := ring.SendTo{AH: uint64(g.ah), QPN: g.qpn, QKey: wildQKey}
		switch g.IntN(8) {
		case 0:
			to.AH = pick(g.Rand, 0, 1, g.Uint64(), uint64(g.ah)+1)
		case 1:
			to.QPN, to.QKey = ib.QPN(g.Uint32()), ib.QKey(g.Uint32())
		}
		put(e[stride-16:], to)
	}
	return b
}

// spoilSend changes a field or two, or none.
func (g *wildWriter) spoilSend(w *ring.SendWQE) {
	for range g.IntN(3) {
		switch g.IntN(7) {
		case 0:
			w.Opcode = ib.WROpcode(g.Uint32())
		case 1:
			w.Flags = ib.SendFlags(g.Uint32())
		case 2:
			w.NumSGE = uint8(g.Uint32())
		case 3:
			w.Length = g.length()
		case 4:
			w.RemoteAddr = g.addr()
		case 5:
			w.RKey = ib.RKey(g.key(1))
		case 6:
			w.Flags, w.NumSGE, w.Length = ib.SendInline, 0, uint32(g.IntN(80))
		}
	}
}

// recvs draws n entries of a receive queue with the given stride.
func (g *wildWriter) recvs(n, stride int) []byte {
	b := make([]byte, n*stride)
	for i := range n {
		k := 1 + g.IntN(int(rig.Cap.MaxRecvSGE))
		s, total := g.sges(k)
		w := ring.RecvWQE{WRID: g.Uint64() | wildReceive, Length: total, NumSGE: uint32(k)}
		switch g.IntN(6) {
		case 0:
			w.Length = g.length()
		case 1:
			w.NumSGE = pick(g.Rand, 0, 3, 4, 1<<28, 1<<28+1, g.Uint32())
		}
		put(b[i*stride:], w)
		for j := range s {
			put(b[i*stride+16+j*16:], s[j])
		}
	}
	return b
}

// Strides of the victim's queues, by what rigCap asks for.
const (
	wildSendStride = 48 + 64 // inline data is longer than two elements
	wildRecvStride = 16 + 2*16
)

// input draws what is written to a victim.
func (g *wildWriter) input(typ ib.QPType, shared bool) *wildInput {
	in := &wildInput{
		typ: typ, shared: shared, sendProd: uint32(g.IntN(6)), recvProd: uint32(g.IntN(6)), restless: g.IntN(3) == 0,
	}
	stride := wildSendStride
	if typ == ib.UD {
		stride += int(ring.SendToSize)
	}
	in.send, in.recv = g.sends(16, stride), g.recvs(16, wildRecvStride)
	if g.IntN(3) == 0 {
		in.sendProd = 0 // the victim lives long enough to receive
	}
	switch g.IntN(10) {
	case 0:
		in.sendProd = pick(g.Rand, 16, 17, 1<<31, ^uint32(0), g.Uint32())
	case 1:
		in.recvProd = pick(g.Rand, 16, 17, 1<<31, ^uint32(0), g.Uint32())
	}
	return in
}
