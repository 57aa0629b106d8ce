package hca_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/nasty"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/roce"
)

// onlyParts returns dice with some behaviours; nil for none.
func onlyParts(seed uint64, adapter int, parts ...nasty.Part) *nasty.Dice {
	c := nasty.Config{Seed: seed}
	for p := range nasty.NumParts {
		c.Without[p] = true
	}
	for _, p := range parts {
		c.Without[p] = false
	}
	return c.New(adapter)
}

// nastyRig is two adapters with behaviours, and what they record.
type nastyRig struct {
	*rig.Rig
	log []string // everything but packets of other adapters
	did [2]map[string][]clock.Instant
}

// nastyOptions configure a nastyRig.
type nastyOptions struct {
	typ   ib.QPType
	seed  uint64
	parts []nasty.Part
	off   bool // no dice at all
}

func newNastyRig(t testing.TB, o nastyOptions) *nastyRig {
	r := &nastyRig{Rig: &rig.Rig{T: t}}
	for i := range r.Sides {
		c := rig.Config{Type: o.typ, Cap: rig.Cap, Bytes: 64 << 10, Challenge: true}
		if !o.off {
			c.HCA.Nasty = onlyParts(o.seed, i, o.parts...)
		}
		r.did[i] = make(map[string][]clock.Instant)
		c.HCA.Trace = func(x *trace.Record) {
			r.log = append(r.log, fmt.Sprintf("%d %v %v", i, x.At, x))
			if x.Kind == trace.Fault {
				r.did[i][x.Cause] = append(r.did[i][x.Cause], x.At)
			}
		}
		r.Sides[i] = c.NewSide(t, byte(i+1))
	}
	return r
}

const (
	lossCause  = "nasty: the response is lost"
	foundCause = "nasty: the lost response is found"
	rnrCause   = "nasty: RNR NAK although there is a receive"
)

// succeed polls side i until n completions have come, all with success.
func (r *nastyRig) succeed(why string, i, n int) {
	r.T.Helper()
	var got []ib.WC
	r.Run(time.Minute, func() bool { got = append(got, r.Poll(i)...); return len(got) >= n })
	for _, wc := range got {
		if wc.Status != ib.WCSuccess {
			r.T.Fatalf("%s: side %d: work request %d ended with %v", why, i, wc.WRID, wc.Status)
		}
	}
	if len(got) != n {
		r.T.Fatalf("%s: side %d has %d completions of %d", why, i, len(got), n)
	}
}

// op is a work request of the stream, and whether the peer needs a receive.
func (r *nastyRig) op(rng *rand.Rand, i int) (wr ib.SendWR, takes bool) {
	s, peer := r.Sides[i], r.Sides[1-i]
	n, at := 1+rng.IntN(8<<10), 8<<10*rng.IntN(2)
	wr = ib.SendWR{WRID: uint64(rng.Uint32()), SGList: []ib.SGE{s.SGE(at, n)}, RemoteAddr: peer.MR.Addr() + 32<<10, RKey: peer.MR.RKey(), CompareAdd: 1}
	switch rng.IntN(5) {
	case 0:
		wr.Opcode = ib.WRRDMAWrite
	case 1:
		wr.Opcode = ib.WRRDMARead
		wr.SGList = []ib.SGE{s.SGE(48<<10, n)}
	case 2:
		wr.Opcode = ib.WRAtomicFetchAdd
		wr.SGList = []ib.SGE{s.SGE(48<<10, 8)}
	case 3:
		wr.Opcode, takes = ib.WRRDMAWriteWithImm, true
	default:
		wr.Opcode, takes = ib.WRSend, true
	}
	return wr, takes
}

// stream sends random requests both ways, one or a few at a time, and checks that all succeed.
func (r *nastyRig) stream(seed uint64, rounds int) {
	rng := rand.New(rand.NewPCG(seed, 11))
	for range rounds {
		i, n, receives := rng.IntN(2), 1+rng.IntN(8), 0
		for k := range n {
			wr, takes := r.op(rng, i)
			if takes {
				receives++
				r.Recv(1-i, ib.RecvWR{WRID: uint64(k), SGList: []ib.SGE{r.Sides[1-i].SGE(16<<10, 8<<10)}})
			}
			r.Post(i, wr)
		}
		r.succeed(fmt.Sprintf("seed %d", seed), i, n)
		if receives > 0 {
			r.succeed(fmt.Sprintf("seed %d", seed), 1-i, receives)
		}
		if rng.IntN(4) == 0 {
			r.Now = r.Now.Add(lossPause)
		}
	}
}

const lossPause = 100 * time.Millisecond

var wireParts = []nasty.Part{nasty.Losses, nasty.RNR, nasty.Delays, nasty.CM}

// meet connects the two queue pairs by the connection manager, as rdma_cm does.
func (r *nastyRig) meet() *meeting {
	m := &meeting{Rig: r.Rig}
	m.listen()
	m.ask()
	m.up()
	return m
}

// TestK2_NothingFails sends a stream of SENDs, WRITEs, READs and atomics over connections, with and
// without losses on the network: every behaviour happens, and every work request succeeds.
func TestK2_NothingFails(t *testing.T) {
	did := map[string]int{}
	for seed := uint64(1); seed <= 20; seed++ {
		for _, lossy := range []bool{false, true} {
			r := newNastyRig(t, nastyOptions{typ: ib.RC, seed: seed, parts: wireParts})
			m := r.meet()
			rng := rand.New(rand.NewPCG(seed, 12))
			if lossy {
				r.Drop = func(int, *roce.Packet) bool { return rng.IntN(50) == 0 }
			}
			r.stream(seed, 120)
			r.Drop = nil
			for i := range r.Sides {
				for cause, at := range r.did[i] {
					did[cause] += len(at)
				}
			}
			rig.Must(t, r.Sides[0].HCA.Disconnect(r.Now, r.Sides[0].QP))
			rig.Must(t, m.conn[0].SendDREQ(r.Now, nil))
			m.over()
		}
	}
	t.Logf("seeds 1 to 20: %v", did)
	for _, cause := range []string{lossCause, rnrCause, "nasty: RTU is sent twice", "nasty: RTU is sent twice"} {
		if did[cause] == 0 {
			t.Errorf("in 40 streams there was never %q", cause)
		}
	}
}

// TestK2_DataIsRight shows that lost responses and repeated requests do not change the data: the
// values that atomics return, and what READs and SENDs bring.
func TestK2_DataIsRight(t *testing.T) {
	const seed = 5
	r := newNastyRig(t, nastyOptions{typ: ib.RC, seed: seed, parts: wireParts})
	r.meet()
	a, b := r.Sides[0], r.Sides[1]
	for i := range uint64(600) {
		rig.Fill(b.Buf[8<<10:16<<10], i)
		rig.Fill(a.Buf[8<<10:16<<10], i+1000)
		r.Recv(1, ib.RecvWR{SGList: []ib.SGE{b.SGE(16<<10, 8<<10)}})
		r.Post(0, ib.SendWR{Opcode: ib.WRAtomicFetchAdd, SGList: []ib.SGE{a.SGE(0, 8)}, RemoteAddr: b.MR.Addr(), RKey: b.MR.RKey(), CompareAdd: 1},
			ib.SendWR{Opcode: ib.WRRDMARead, SGList: []ib.SGE{a.SGE(24<<10, 8<<10)}, RemoteAddr: b.MR.Addr() + 8<<10, RKey: b.MR.RKey()},
			ib.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{a.SGE(8<<10, 8<<10)}})
		r.succeed("seed 5", 0, 3)
		r.succeed("seed 5", 1, 1)
		if got := uint64(a.Buf[0]) | uint64(a.Buf[1])<<8; got != i {
			t.Fatalf("seed %d: FETCH&ADD number %d found %d: it was executed again", seed, i, got)
		}
		if !bytes.Equal(a.Buf[24<<10:32<<10], b.Buf[8<<10:16<<10]) || !bytes.Equal(b.Buf[16<<10:24<<10], a.Buf[8<<10:16<<10]) {
			t.Fatalf("seed %d: round %d: the data of the READ or the SEND is wrong", seed, i)
		}
		r.Now = r.Now.Add(lossPause / 4)
	}
	if len(r.did[0][lossCause]) == 0 || len(r.did[1][rnrCause]) == 0 {
		t.Errorf("seed %d: %d losses and %d RNR NAKs", seed, len(r.did[0][lossCause]), len(r.did[1][rnrCause]))
	}
}

// pingPong connects the queue pairs directly and sends n SENDs from side 0, one after another.
func (r *nastyRig) pingPong(n int) {
	for range n {
		r.Recv(1, ib.RecvWR{SGList: []ib.SGE{r.Sides[1].SGE(0, 64)}})
		r.Post(0, ib.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{r.Sides[0].SGE(0, 64)}})
		r.succeed("ping-pong", 0, 1)
		r.succeed("ping-pong", 1, 1)
	}
}

// direct connects the queue pairs without the connection manager.
func (r *nastyRig) direct(change func(*ib.QPAttr)) {
	for i := range r.Sides {
		a := r.Attrs(i, ib.MTU1024)
		if change != nil {
			change(&a)
		}
		r.Walk(i, a, ib.RTS)
	}
}

// TestK2_LossesAreBounded shows which queue pairs lose responses, and that two losses are at least
// 100 ms apart.
func TestK2_LossesAreBounded(t *testing.T) {
	for _, c := range []struct {
		timeout, retries uint8
		want             bool
	}{{14, 7, true}, {14, 2, true}, {14, 1, false}, {14, 0, false}, {0, 7, false}} {
		losses := 0
		for seed := uint64(1); seed <= 8; seed++ {
			r := newNastyRig(t, nastyOptions{typ: ib.RC, seed: seed, parts: []nasty.Part{nasty.Losses}})
			r.direct(func(a *ib.QPAttr) { a.Timeout, a.RetryCnt = c.timeout, c.retries })
			for range 4 {
				r.pingPong(100)
				r.Now = r.Now.Add(lossPause)
			}
			at := r.did[0][lossCause]
			for k := range max(len(at), 1) - 1 {
				if d := at[k+1].Sub(at[k]); d < lossPause {
					t.Errorf("seed %d: two losses within %v", seed, d)
				}
			}
			losses += len(at)
			if n := r.Sides[1].HCA.Counters().Drops; n != r.Sides[0].HCA.Counters().Drops {
				t.Errorf("seed %d: drops are counted: %v", seed, n)
			}
		}
		t.Logf("timeout %d, retry count %d, seeds 1 to 8: %d losses", c.timeout, c.retries, losses)
		if (losses > 0) != c.want {
			t.Errorf("timeout %d, retry count %d: %d losses, want some: %v", c.timeout, c.retries, losses, c.want)
		}
	}
}

// TestK2_LostResponseIsFound shows that no work request fails because its response was lost and its
// peer is gone: the response is found when the repetition stays unanswered, and before ERR.
func TestK2_LostResponseIsFound(t *testing.T) {
	for _, op := range []ib.WROpcode{ib.WRSend, ib.WRRDMARead, ib.WRAtomicFetchAdd} {
		for _, ends := range []bool{false, true} {
			r := newNastyRig(t, nastyOptions{typ: ib.RC, seed: 3, parts: []nasty.Part{nasty.Losses}})
			r.direct(nil)
			for n := 0; len(r.did[0][lossCause]) == 0; n++ {
				if n == 1000 {
					t.Fatalf("%v: seed 3: no loss in %d messages", op, n)
				}
				a, b := r.Sides[0], r.Sides[1]
				if op == ib.WRSend {
					r.Recv(1, ib.RecvWR{SGList: []ib.SGE{b.SGE(0, 64)}})
				}
				r.Post(0, ib.SendWR{Opcode: op, SGList: []ib.SGE{a.SGE(0, 8)}, RemoteAddr: b.MR.Addr(), RKey: b.MR.RKey(), CompareAdd: 1})
				r.Now = r.Now.Add(rig.Latency)
				r.Transmit(0)
				r.Transmit(1)
				r.Poll(1)
				if len(r.did[0][lossCause]) == 0 {
					r.succeed(op.String(), 0, 1)
				}
			}
			r.Drop = func(int, *roce.Packet) bool { return true }
			if ends {
				rig.Must(t, r.Sides[0].HCA.Disconnect(r.Now, r.Sides[0].QP))
			}
			begun := r.Now
			r.succeed(op.String(), 0, 1)
			if len(r.did[0][foundCause]) != 1 {
				t.Errorf("%v: the response was not found", op)
			}
			if took := r.Now.Sub(begun); took > ib.AckTimeout(14) {
				t.Errorf("%v: the response was found after %v", op, took)
			}
		}
	}
}

// TestK2_RNRIsBounded shows that only a peer whose RNR retries are known and at least 2 gets RNR NAKs,
// each request one at most, and that RESET clears what is known.
func TestK2_RNRIsBounded(t *testing.T) {
	for _, c := range []struct {
		what    string
		retries uint8
		know    func(r *nastyRig)
		want    bool
	}{
		{"known", 2, func(r *nastyRig) { r.Sides[1].QP.PeerRetries(r.Sides[0].QP.Num(), 2) }, true},
		{"too few", 1, func(r *nastyRig) { r.Sides[1].QP.PeerRetries(r.Sides[0].QP.Num(), 1) }, false},
		{"unknown", 7, func(*nastyRig) {}, false},
		{"another queue pair's", 7, func(r *nastyRig) { r.Sides[1].QP.PeerRetries(r.Sides[0].QP.Num()+1, 7) }, false},
		{"known before RESET", 7, func(r *nastyRig) {
			r.Sides[1].QP.PeerRetries(r.Sides[0].QP.Num(), 7)
			for _, s := range r.Sides {
				rig.Must(t, s.QP.Modify(r.Now, &ib.QPAttr{State: ib.RESET}, ib.AttrState))
			}
			r.direct(nil)
		}, false},
	} {
		naks := 0
		for seed := uint64(1); seed <= 8; seed++ {
			r := newNastyRig(t, nastyOptions{typ: ib.RC, seed: seed, parts: []nasty.Part{nasty.RNR}})
			r.direct(func(a *ib.QPAttr) { a.RNRRetry = c.retries })
			c.know(r)
			refused := map[ib.PSN]int{}
			r.Drop = func(_ int, p *roce.Packet) bool {
				if p.Info.Kind == roce.KindAck && p.AETH.Syndrome.IsRNR() {
					refused[p.BTH.PSN]++
				}
				return false
			}
			r.pingPong(400)
			for psn, n := range refused {
				if n > 1 {
					t.Errorf("%s: seed %d: the request at %v got %d RNR NAKs", c.what, seed, psn, n)
				}
			}
			at := r.did[1][rnrCause]
			for k := range max(len(at), 1) - 1 {
				if d := at[k+1].Sub(at[k]); d < 16*ib.RNRTimer(12) {
					t.Errorf("%s: seed %d: two RNR NAKs within %v", c.what, seed, d)
				}
			}
			naks += len(at)
		}
		t.Logf("%s, seeds 1 to 8: %d RNR NAKs", c.what, naks)
		if (naks > 0) != c.want {
			t.Errorf("%s: %d RNR NAKs, want some: %v", c.what, naks, c.want)
		}
	}
}

// TestK2_RNROfConnections shows that the connection manager tells a queue pair what it has asked the
// peer to do.
func TestK2_RNROfConnections(t *testing.T) {
	const seed = 9
	r := newNastyRig(t, nastyOptions{typ: ib.RC, seed: seed, parts: []nasty.Part{nasty.RNR}})
	r.meet()
	for range 20 {
		r.pingPong(40)
		r.Now = r.Now.Add(time.Minute)
	}
	if n := len(r.did[1][rnrCause]); n == 0 {
		t.Errorf("seed %d: no RNR NAK on the connection of a REQ with 6 RNR retries", seed)
	}
}

// TestK2_DelaysAreBounded shows that some work requests begin late, none by more than 200 µs, and
// that a waiting work request is flushed, and drained, at once.
func TestK2_DelaysAreBounded(t *testing.T) {
	for _, typ := range []ib.QPType{ib.RC, ib.UC, ib.UD} {
		late, flushed := 0, 0
		for seed := uint64(1); seed <= 20; seed++ {
			r := newNastyRig(t, nastyOptions{typ: typ, seed: seed, parts: []nasty.Part{nasty.Delays}})
			r.direct(nil)
			for range 100 {
				posted := r.Now
				r.Post(0, r.delayed(typ))
				sent := r.Transmit(0)
				for !sent && r.Sides[0].HCA.Single().Deadline() != clock.Never {
					r.Now = max(r.Now, r.Sides[0].HCA.Single().Deadline())
					r.Sides[0].HCA.Single().Advance(r.Now)
					sent = r.Transmit(0)
				}
				wait := r.Now.Sub(posted)
				if !sent || wait > 200*time.Microsecond {
					t.Fatalf("%v: seed %d: sent: %v, after %v", typ, seed, sent, wait)
				}
				if wait > 0 {
					late++
				}
				r.succeed(typ.String(), 0, 1)
			}
			flushed += r.flushWaiting(typ, seed)
		}
		t.Logf("%v, seeds 1 to 20: %d of 2000 work requests were late, %d were flushed while they waited", typ, late, flushed)
		if late < 50 || late > 250 || flushed == 0 {
			t.Errorf("%v: %d of 2000 work requests were late, want one in 16; %d were flushed while they waited", typ, late, flushed)
		}
	}
}

// delayed returns a work request of 64 bytes.
func (r *nastyRig) delayed(typ ib.QPType) ib.SendWR {
	wr := ib.SendWR{Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{r.Sides[0].SGE(0, 64)}, RemoteAddr: r.Sides[1].MR.Addr(), RKey: r.Sides[1].MR.RKey()}
	if typ == ib.UD {
		ah, err := r.Sides[0].PD.CreateAH(&ib.AHAttr{DGID: ib.GIDFromAddr(r.Sides[1].Addr), HopLimit: 64, Port: 1})
		rig.Must(r.T, err)
		wr = ib.SendWR{Opcode: ib.WRSend, SGList: wr.SGList, AH: ah, RemoteQPN: r.Sides[1].QP.Num()}
	}
	return wr
}

// flushWaiting posts work requests until one waits, then drains and ends the queue pair. It returns
// how many waited.
func (r *nastyRig) flushWaiting(typ ib.QPType, seed uint64) int {
	q := r.Sides[0].QP
	for range 200 {
		r.Post(0, r.delayed(typ))
		if r.Transmit(0) {
			r.succeed(typ.String(), 0, 1)
			continue
		}
		rig.Must(r.T, q.Modify(r.Now, &ib.QPAttr{State: ib.SQD}, ib.AttrState))
		if q.Query().SQDraining {
			r.T.Errorf("%v: seed %d: SQD drains a work request that has not begun", typ, seed)
		}
		rig.Must(r.T, q.Modify(r.Now, &ib.QPAttr{State: ib.ERR}, ib.AttrState))
		if wcs := r.Poll(0); len(wcs) != 1 || wcs[0].Status != ib.WCWRFlushErr {
			r.T.Errorf("%v: seed %d: a work request that waits is flushed: %+v", typ, seed, wcs)
		}
		return 1
	}
	return 0
}

// TestK2_LeftOut shows that behaviours that are left out change nothing, and that each of the others
// does.
func TestK2_LeftOut(t *testing.T) {
	const seed = 4
	run := func(off bool, parts ...nasty.Part) string {
		r := newNastyRig(t, nastyOptions{typ: ib.RC, seed: seed, parts: parts, off: off})
		r.meet()
		r.stream(seed, 60)
		return strings.Join(r.log, "\n")
	}
	plain := run(true)
	if run(false) != plain {
		t.Error("without all behaviours the adapters do something else than without dice")
	}
	for _, p := range wireParts {
		first := run(false, p)
		if first == plain {
			t.Errorf("seed %d: %v changes nothing", seed, p)
		}
		if first != run(false, p) {
			t.Errorf("seed %d: %v: two runs differ", seed, p)
		}
	}
}

// TestK2_SharedReceiveStays shows that the receive of a request that got an RNR NAK stays with its queue
// pair: the repetition finds it although the shared receive queue is empty.
func TestK2_SharedReceiveStays(t *testing.T) {
	const seed = 6
	r := newNastyRig(t, nastyOptions{typ: ib.RC, seed: seed, parts: []nasty.Part{nasty.RNR}})
	s := r.Sides[1]
	srq, err := s.PD.CreateSRQ(4, 1, 0)
	rig.Must(t, err)
	s.QP, err = s.HCA.CreateQP(s.PD, hca.QPConfig{Type: ib.RC, SendCQ: s.CQ, RecvCQ: s.CQ, SRQ: srq, Cap: rig.Cap, SigAll: true})
	rig.Must(t, err)
	r.direct(func(a *ib.QPAttr) { a.RNRRetry = 2 })
	s.QP.PeerRetries(r.Sides[0].QP.Num(), 2)
	for range 400 {
		rig.Must(t, srq.PostRecv(&ib.RecvWR{SGList: []ib.SGE{s.SGE(0, 64)}}))
		r.Post(0, ib.SendWR{Opcode: ib.WRSend, SGList: []ib.SGE{r.Sides[0].SGE(0, 64)}})
		r.succeed("shared receives", 0, 1)
		r.succeed("shared receives", 1, 1)
		r.Now = r.Now.Add(lossPause)
	}
	if n := len(r.did[1][rnrCause]); n < 10 {
		t.Errorf("seed %d: %d RNR NAKs in 400 messages", seed, n)
	}
}

// TestK2_WithFaults shows that RNR NAKs that the user asks for are not added to those of the behaviour:
// no request gets two, though each of the user's rules is applied.
func TestK2_WithFaults(t *testing.T) {
	const seed = 8
	r := newNastyRig(t, nastyOptions{typ: ib.RC, seed: seed, parts: []nasty.Part{nasty.RNR}})
	r.direct(func(a *ib.QPAttr) { a.RNRRetry = 2 })
	r.Sides[1].QP.PeerRetries(r.Sides[0].QP.Num(), 2)
	seen, injected := map[ib.PSN]int{}, 0
	r.Sides[1].HCA.Inject(func(_ *qp.QP, p *qp.Packet) roce.Syndrome {
		if seen[p.BTH.PSN]++; seen[p.BTH.PSN] == 1 && p.BTH.PSN.Value()%5 == 0 {
			injected++
			return roce.RNRNAK(12)
		}
		return 0
	}, nil)
	for range 400 {
		r.pingPong(1)
		r.Now = r.Now.Add(lossPause)
	}
	for psn, n := range seen {
		if n > 2 {
			t.Errorf("seed %d: the request at %v was sent %d times", seed, psn, n)
		}
	}
	if n := len(r.did[1][rnrCause]); n < 10 || injected < 79 {
		t.Errorf("seed %d: %d RNR NAKs of the behaviour, %d of the user", seed, n, injected)
	}
}
