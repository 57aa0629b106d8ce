package verbs

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

func TestQ23_ErrorCompletionPromisesThreeFields(t *testing.T) {
	a, b := newConnected(t, ib.RC)
	bad := a.write(0xdead, 8, b)
	bad.RKey ^= 0x7700
	must.Do(t, a.qp.PostSend(bad, a.write(0xbeef, 8, b)))
	must.Do(t, a.qp.PostRecv(a.recv(0xcafe, 0, 8)))
	want := []WC{
		{WRID: 0xdead, Status: ib.WCRemAccessErr, QPN: a.qp.QPN()},
		{WRID: 0xbeef, Status: ib.WCWRFlushErr, QPN: a.qp.QPN()},
		{WRID: 0xcafe, Status: ib.WCWRFlushErr, QPN: a.qp.QPN()},
	}
	for i, wc := range a.take(t, 3) {
		if wc != want[i] {
			t.Errorf("completion %d is %+v, want wr_id, status and QPN only: %+v", i, wc, want[i])
		}
	}
}

// postErrorOf checks that err names work request index of a list, and returns the
// wrapped error.
func postErrorOf(t *testing.T, err error, index int, id uint64) {
	t.Helper()
	var p *PostError
	if !errors.As(err, &p) {
		t.Fatalf("error %v (%T), want a *PostError", err, err)
	}
	if p.Index != index || p.WRID != id {
		t.Errorf("the error names work request %d (wr_id %d), want %d (wr_id %d): %v", p.Index, p.WRID, index, id, err)
	}
}

func TestPostErrorNamesTheFirstRefused(t *testing.T) {
	a, b := newConnected(t, ib.RC)
	bad := a.write(12, 8, b)
	bad.SGList = make([]SGE, 33)
	err := a.qp.PostSend(a.write(10, 8, b), a.write(11, 8, b), bad, a.write(13, 8, b))
	postErrorOf(t, err, 2, 12)
	must.Fail(t, err, syscall.EINVAL, "post too many gather elements")
	wcs := a.wait(t, 2)
	if wcs[0].WRID != 10 || wcs[1].WRID != 11 {
		t.Errorf("completions %+v, want those posted before the refused one", wcs)
	}
	must.Do(t, a.qp.PostSend(a.write(14, 8, b)))
	if wc := a.wait(t, 1)[0]; wc.WRID != 14 {
		t.Errorf("completion of %d: a work request behind the refused one was posted", wc.WRID)
	}

	err = b.qp.PostRecv(b.recv(1, 0, 8), RecvWR{WRID: 2, SGList: make([]SGE, 3)}, b.recv(3, 0, 8))
	postErrorOf(t, err, 1, 2)
	must.Do(t, a.qp.PostSend(a.send(1, 8)))
	if wc := b.wait(t, 1)[0]; wc.WRID != 1 {
		t.Errorf("receive %d completed, want the one before the refused", wc.WRID)
	}
}

func TestPostErrorQueueFull(t *testing.T) {
	a, b := newPair(t, ib.RC)
	a.walk(t, a.attrs(b), ib.RTS) // the peer is in RESET and answers nothing
	n := int(a.init(ib.RC).Cap.MaxSendWR)
	wrs := make([]SendWR, n+2)
	for i := range wrs {
		wrs[i] = a.write(uint64(i), 8, b)
	}
	err := a.qp.PostSend(wrs...)
	postErrorOf(t, err, n, uint64(n))
	must.Fail(t, err, syscall.ENOMEM, "post more sends than the queue has")
	recvs := make([]RecvWR, 65)
	err = a.qp.PostRecv(recvs...)
	postErrorOf(t, err, 64, 0)
	must.Fail(t, err, syscall.ENOMEM, "post more receives than the queue has")
	must.Do(t, a.qp.PostSend())
	must.Do(t, a.qp.PostRecv())
	a.move(t, ib.ERR)
	for i, wc := range a.take(t, n+64) {
		if wc.Status != ib.WCWRFlushErr || i < n && wc.WRID != uint64(i) {
			t.Fatalf("completion %d: %+v, want the flush of every request in order", i, wc)
		}
	}
}

func TestPostSendRefuses(t *testing.T) {
	rc, _ := newConnected(t, ib.RC)
	ud, _ := newConnected(t, ib.UD)
	uc, _ := newConnected(t, ib.UC)
	inline := func(n int) SendWR {
		return SendWR{Opcode: ib.WRSend, Flags: ib.SendInline, InlineData: make([]byte, n)}
	}
	for _, c := range []struct {
		what string
		q    *endpoint
		wr   SendWR
		want error
	}{
		{"an operation that does not exist", rc, SendWR{Opcode: 200}, syscall.EOPNOTSUPP},
		{"an operation that is not provided", rc, SendWR{Opcode: ib.WRTSO}, syscall.EOPNOTSUPP},
		{"READ on UC", uc, SendWR{Opcode: ib.WRRDMARead}, syscall.EINVAL},
		{"WRITE on UD", ud, SendWR{Opcode: ib.WRRDMAWrite}, syscall.EINVAL},
		{"UD without address handle", ud, SendWR{Opcode: ib.WRSend}, syscall.EINVAL},
		{"inline over the maximum", rc, inline(65), syscall.EINVAL},
		{"inline with gather elements", rc, SendWR{Opcode: ib.WRSend, Flags: ib.SendInline, SGList: make([]SGE, 1)}, syscall.EINVAL},
		{"inline data without the flag", rc, SendWR{Opcode: ib.WRSend, InlineData: make([]byte, 8)}, syscall.EINVAL},
		{"inline READ", rc, SendWR{Opcode: ib.WRRDMARead, Flags: ib.SendInline}, syscall.EINVAL},
		{"an atomic of 4 bytes", rc, SendWR{Opcode: ib.WRAtomicFetchAdd, SGList: []SGE{rc.mr.SGE(0, 4)}}, syscall.EINVAL},
		{"more than 2^31 bytes", rc, SendWR{Opcode: ib.WRSend, SGList: []SGE{rc.mr.SGE(0, 1<<31), rc.mr.SGE(0, 1)}}, syscall.EINVAL},
	} {
		err := c.q.qp.PostSend(c.wr)
		must.Fail(t, err, c.want, c.what)
		c.q.quiet(t, c.what)
	}
	must.Fail(t, rc.qp.PostRecv(RecvWR{SGList: []SGE{rc.mr.SGE(0, 1<<31), rc.mr.SGE(0, 1)}}), syscall.EINVAL, "receive of more than 2^31 bytes")
}

func TestInlineIsCopiedByThePost(t *testing.T) {
	a, b := newPair(t, ib.RC)
	a.walk(t, a.attrs(b), ib.RTS)
	buf := []byte("what the post saw")
	must.Do(t, a.qp.PostSend(SendWR{WRID: 1, Opcode: ib.WRSend, Flags: ib.SendInline, InlineData: buf}))
	clear(buf) // the first packet went to a peer in RESET: only the retry delivers data
	b.walk(t, b.attrs(a), ib.INIT)
	must.Do(t, b.qp.PostRecv(b.recv(2, 0, 64)))
	b.walkFrom(t, a, 1)
	a.wait(t, 1)
	wc := b.wait(t, 1)[0]
	if got := b.mr.Bytes()[:wc.ByteLen]; string(got) != "what the post saw" {
		t.Errorf("the peer received %q", got)
	}
}

// walkFrom moves e's QP to RTS, starting with the given step.
func (e *endpoint) walkFrom(t *testing.T, peer *endpoint, step int) {
	t.Helper()
	for _, s := range steps[e.qp.Type()][step:] {
		attr := e.attrs(peer)
		attr.State = s.to
		must.Do(t, e.qp.Modify(&attr, s.mask|ib.AttrState))
	}
}

// TestPostRecvRacesFlush posts receives while the QP is moved to ERR, by
// modify or by an error of its own: each is refused, or completes once, in
// order.
func TestPostRecvRacesFlush(t *testing.T) {
	a, b := newPair(t, ib.RC)
	for round := range 400 {
		connect(t, a, b, nil)
		var taken atomic.Int64
		posted := make(chan struct{})
		go func() {
			defer close(posted)
			for i := range uint64(40) {
				if a.qp.PostRecv(a.recv(i, 0, 8)) != nil {
					t.Errorf("receive %d was refused in %v", i, a.qp.State())
					return
				}
				taken.Add(1)
			}
		}()
		extra := 0
		spin(round)
		if round%2 == 0 {
			a.move(t, ib.ERR)
		} else {
			bad := a.write(1000, 8, b)
			bad.RKey ^= 0x100
			must.Do(t, a.qp.PostSend(bad))
			extra = 1
		}
		<-posted
		next := uint64(0)
		for _, wc := range a.take(t, int(taken.Load())+extra) {
			if wc.WRID == 1000 {
				continue
			}
			if wc.Status != ib.WCWRFlushErr || wc.WRID != next {
				t.Fatalf("round %d: completion %+v, want the flush of %d", round, wc, next)
			}
			next++
		}
		a.quiet(t, "one completion too many")
		a.again(t)
		b.again(t)
	}
}

// again moves a QP back to RESET and discards its events.
func (e *endpoint) again(t *testing.T) {
	t.Helper()
	e.move(t, ib.RESET)
	for {
		ev, err := e.ctx.PollAsyncEvent()
		if err != nil {
			must.Fail(t, err, syscall.EAGAIN, "poll for events")
			return
		}
		ev.Ack()
	}
}

// spin delays the caller by a short time that differs by round.
func spin(round int) {
	for range round % 13 {
		runtime.Gosched()
	}
}

// TestPostSendRacesFlush posts sends while the QP fails: each posted request completes
// exactly once and in order. A round in which the peer refuses a request takes as long as the
// challenge of its NAK. Each connection has PSNs of its own, so that no late acknowledgement
// of the last one fits.
func TestPostSendRacesFlush(t *testing.T) {
	a, b := newPair(t, ib.RC)
	for round := range 150 {
		connect(t, a, b, func(attr *QPAttr) {
			first := ib.NewPSN(uint32(round) << 12)
			attr.SQPSN, attr.RQPSN = first, first
		})
		const n = 60
		posted := make(chan struct{})
		go func() {
			defer close(posted)
			for i := range uint64(n) {
				wr := a.write(i, 8, b)
				if i == uint64(round%n) && round%2 == 1 {
					wr.RKey ^= 0x100
				}
				if err := a.qp.PostSend(wr); err != nil {
					t.Errorf("send %d: %v", i, err)
				}
			}
		}()
		spin(round)
		if round%2 == 0 {
			a.move(t, ib.ERR)
		}
		<-posted
		failed := false
		for i, wc := range a.take(t, n) {
			if wc.WRID != uint64(i) || failed && wc.Status == ib.WCSuccess {
				t.Fatalf("round %d: completion %d is %+v, failed before: %v", round, i, wc, failed)
			}
			failed = wc.Status != ib.WCSuccess
		}
		if round%2 == 1 && !failed {
			t.Fatalf("round %d: the peer refused no request", round)
		}
		a.quiet(t, "one completion too many")
		a.again(t)
		b.again(t)
	}
}

// TestPostRacesReset posts while the QP moves to RESET and back: a reset discards
// posted requests without completions, and requests posted to the new connection
// complete.
func TestPostRacesReset(t *testing.T) {
	a, b := newPair(t, ib.RC)
	for round := range 200 {
		connect(t, a, b, nil)
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for {
				select {
				case <-stop:
					return
				default:
					// Refused after the QP was reset, as intended.
					_ = a.qp.PostSend(a.write(7, 8, b))
					_ = a.qp.PostRecv(a.recv(7, 0, 8))
					runtime.Gosched()
				}
			}
		}()
		spin(round)
		a.move(t, ib.RESET)
		a.quiet(t, "a completion outlived RESET")
		close(stop)
		<-done
		a.quiet(t, "a completion in RESET")
		b.again(t)
	}
}

// TestManyPostersAndPollers posts to one QP and polls one CQ from many
// goroutines: every request completes exactly once.
func TestManyPostersAndPollers(t *testing.T) {
	for where, network := range networks {
		t.Run(where, func(t *testing.T) {
			a, b := network(t, ib.RC)
			connect(t, a, b, nil)
			const posters, each = 6, 250
			var seen [posters * each]atomic.Int32
			var done atomic.Int64
			var all sync.WaitGroup
			for p := range posters {
				all.Go(func() {
					for i := range each {
						postUntilTaken(t, a.qp, a.write(uint64(p*each+i), 64, b))
					}
				})
			}
			for range 3 {
				all.Go(func() {
					wcs := make([]WC, 7)
					for done.Load() < posters*each && !t.Failed() {
						for _, wc := range wcs[:poll(t, a.cq, wcs)] {
							seen[wc.WRID].Add(1)
							done.Add(1)
							if wc.Status != ib.WCSuccess {
								t.Errorf("completion %+v", wc)
							}
						}
					}
				})
			}
			all.Wait()
			for i := range seen {
				if n := seen[i].Load(); n != 1 {
					t.Errorf("request %d completed %d times", i, n)
				}
			}
			a.quiet(t, "one completion too many")
		})
	}
}

// postUntilTaken posts again while the queue is full.
func postUntilTaken(t *testing.T, q *QP, wr SendWR) {
	for {
		err := q.PostSend(wr)
		if err == nil {
			return
		}
		if !errors.Is(err, syscall.ENOMEM) || t.Failed() {
			t.Errorf("post: %v", err)
			return
		}
		runtime.Gosched()
	}
}

// TestScatterGather sends from random lists of elements into random lists.
func TestScatterGather(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	a, b := newConnected(t, ib.RC)
	pattern(a.mr.Bytes(), 1)
	for range 50 {
		n := r.Uint32N(20000)
		cut, cut2 := r.Uint32N(n+1), r.Uint32N(n+1)
		off, off2 := uint64(r.Uint32N(1<<20-20000)), uint64(1<<20+r.Uint32N(1<<20)) // the two elements do not overlap
		must.Do(t, b.qp.PostRecv(RecvWR{SGList: []SGE{b.mr.SGE(off, cut2), b.mr.SGE(off2, n-cut2)}}))
		must.Do(t, a.qp.PostSend(SendWR{Opcode: ib.WRSend, SGList: []SGE{a.mr.SGE(off, cut), a.mr.SGE(off2, n-cut)}}))
		a.wait(t, 1)
		if wc := b.wait(t, 1)[0]; wc.ByteLen != n {
			t.Fatalf("received %d bytes of %d", wc.ByteLen, n)
		}
		sent := append(bytes.Clone(a.mr.Bytes()[off:][:cut]), a.mr.Bytes()[off2:][:n-cut]...)
		received := append(bytes.Clone(b.mr.Bytes()[off:][:cut2]), b.mr.Bytes()[off2:][:n-cut2]...)
		if !bytes.Equal(sent, received) {
			t.Fatalf("%d bytes, gathered from %d+%d, scattered to %d+%d, differ", n, cut, n-cut, cut2, n-cut2)
		}
	}
}
