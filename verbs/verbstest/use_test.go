package verbstest_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

func atomicNotAligned(r *rig, bug bool) {
	r.open(settings{})
	wr, status := r.read(8), verbs.WCSuccess
	wr.Opcode = verbs.WRAtomicFetchAdd
	if bug {
		wr.RemoteAddr, status = wr.RemoteAddr+4, verbs.WCRemInvReqErr
	}
	must.Do(r.t, r.a.qp.PostSend(wr)) // BUG
	r.want(r.a.cq, status)
	r.close()
}

func messageLongerThanMTU(r *rig, bug bool) {
	r.open(settings{typ: verbs.UD})
	ah := r.address()
	wr, status := r.send(4096), verbs.WCSuccess
	if bug {
		wr, status = r.send(4097), verbs.WCLocLenErr
	}
	wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, r.b.qp.QPN(), qkey
	must.Do(r.t, r.a.qp.PostSend(wr)) // BUG
	r.want(r.a.cq, status)
	must.Do(r.t, ah.Destroy())
	r.close()
}

func noRoomForGRH(r *rig, bug bool) {
	r.open(settings{typ: verbs.UD})
	n := uint32(40)
	if bug {
		n--
	}
	must.Do(r.t, r.b.qp.PostRecv(r.receive(0, n))) // BUG
	r.close()
}

func remoteAccessError(r *rig, bug bool) {
	r.open(settings{}) // BUG
	wr, status := r.write(64), verbs.WCSuccess
	if bug {
		wr.RKey, status = wr.RKey^0xffff00, verbs.WCRemAccessErr
	}
	must.Do(r.t, r.a.qp.PostSend(wr)) // BUG
	r.want(r.a.cq, status)
	r.close()
}

// Both sides get an error.
func receiveTooSmall(r *rig, bug bool) {
	r.open(settings{})
	n, at, from := uint32(64), verbs.WCSuccess, verbs.WCSuccess
	if bug {
		n, at, from = 63, verbs.WCLocLenErr, verbs.WCRemInvReqErr
	}
	must.Do(r.t, r.b.qp.PostRecv(r.receive(0, n))) // BUG
	must.Do(r.t, r.a.qp.PostSend(r.send(64)))      // BUG
	r.want(r.a.cq, from)
	r.want(r.b.cq, at)
	r.close()
}

func localOperationError(r *rig, bug bool) {
	r.open(settings{})
	access, status := verbs.AccessLocalWrite|verbs.AccessMWBind, verbs.WCSuccess
	if bug {
		access, status = verbs.AccessLocalWrite, verbs.WCMWBindErr
	}
	mr, err := r.a.pd.RegMR(make([]byte, 64), access)
	must.Do(r.t, err)
	mw, err := r.a.pd.AllocMW(verbs.MWType1)
	must.Do(r.t, err)
	must.Do(r.t, r.a.qp.BindMW(1, verbs.SendSignaled, verbs.MWBind{MW: mw, MR: mr, Addr: mr.Addr(), Length: 64, Access: verbs.AccessRemoteRead})) // BUG
	r.want(r.a.cq, status)
	must.Do(r.t, mw.Dealloc())
	must.Do(r.t, mr.Dereg())
	r.close()
}

// post posts a request, again and again if the queue is full.
func (r *rig) post(wr verbs.SendWR) {
	for again := r.again(); again(r.a.qp.PostSend(wr)); {
	}
}

// again returns a function that reports whether to post again after an error: while the queue is full, until something is
// found, and a few times more.
func (r *rig) again() func(error) bool {
	more, end := depth, time.Now().Add(time.Minute)
	return func(err error) bool {
		switch {
		case err == nil:
			return false
		case !errors.Is(err, ib.ENOMEM) || time.Now().After(end):
			r.t.Fatal(err)
		case len(r.found) > 0:
			more--
		}
		return more > 0
	}
}

func sendQueueNeverReclaimed(r *rig, bug bool) {
	r.open(settings{})
	for i := range depth + 1 {
		wr := r.write(8)
		if bug || i%4 != 0 {
			wr.Flags = 0
		}
		r.post(wr) // BUG
		if wr.Flags != 0 {
			r.want(r.a.cq, verbs.WCSuccess)
		}
	}
	r.close()
}

func sendQueueOverfilled(r *rig, bug bool) {
	r.open(settings{})
	for i := range depth + 1 {
		wr := r.write(8)
		if i%2 == 0 {
			wr.Flags = 0
		}
		r.post(wr) // BUG
		if !bug && i%2 == 1 {
			r.want(r.a.cq, verbs.WCSuccess)
		}
	}
	for i := 0; bug && i < depth/2; i++ {
		r.want(r.a.cq, verbs.WCSuccess)
	}
	r.close()
}

// receiveAgain fills a receive queue, and posts one more receive after one has taken a message.
func (r *rig) receiveAgain(q interface{ PostRecv(...verbs.RecvWR) error }, bug bool) {
	for i := range depth + 1 {
		if i == depth {
			must.Do(r.t, r.a.qp.PostSend(r.send(8)))
			r.want(r.a.cq, verbs.WCSuccess)
			if !bug {
				r.want(r.b.cq, verbs.WCSuccess)
			}
		}
		for again := r.again(); again(q.PostRecv(r.receive(uint64(i)*8, 8))); {
		}
	}
	if bug {
		r.want(r.b.cq, verbs.WCSuccess)
	}
	r.close()
}

func receiveQueueOverfilled(r *rig, bug bool) {
	r.open(settings{})
	r.receiveAgain(r.b.qp, bug) // BUG
}

func srqOverfilled(r *rig, bug bool) {
	r.open(settings{shared: true})
	r.receiveAgain(r.b.srq, bug) // BUG
}

func cqTooSmall(r *rig, bug bool) {
	r.open(settings{cqes: 3})
	n := 3
	if bug {
		n = 4
	}
	for i := range n {
		must.Do(r.t, r.b.qp.PostRecv(r.receive(uint64(i)*8, 8))) // BUG
	}
	r.close()
}

// There are two findings: one at the line that creates the queue, one at the line that posts too much.
func cqOverrun(r *rig, bug bool) {
	r.open(settings{})
	cq, err := r.a.ctx.CreateCQ(1, nil) // BUG
	must.Do(r.t, err)
	must.Do(r.t, r.a.qp.Destroy())
	must.Do(r.t, r.a.cq.Destroy())
	r.a.cq = cq
	r.a.qp = r.a.newQP(r, r.a.pd)
	r.b.qp = r.replace(r.b)
	r.connect(nil)
	for range 2 {
		must.Do(r.t, r.a.qp.PostSend(r.write(8))) // BUG
		if !bug {
			r.want(cq, verbs.WCSuccess)
		}
	}
	for end := time.Now().Add(time.Minute); bug && !cq.Overrun() && time.Now().Before(end); {
		r.a.qp.State()
	}
	r.drain(r.a)
	ackAll(r)
	r.close()
}

// replace destroys the queue pair of a side and returns another one.
func (r *rig) replace(e *side) *verbs.QP {
	must.Do(r.t, e.qp.Destroy())
	return e.newQP(r, e.pd)
}

// ackAll acknowledges all events of side a.
func ackAll(r *rig) {
	for {
		ev, err := r.a.ctx.PollAsyncEvent()
		if errors.Is(err, ib.EAGAIN) {
			return
		}
		must.Do(r.t, err)
		ev.Ack()
	}
}

// fails posts a WRITE that fails if bug is set, and waits until it has completed.
func (r *rig) fails(bug bool) {
	wr := r.write(8)
	if bug {
		wr.RKey ^= 0xffff00
	}
	must.Do(r.t, r.a.qp.PostSend(wr))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	must.Do(r.t, r.a.cq.Wait(ctx))
}

func errorNeverPolled(r *rig, bug bool) {
	r.open(settings{}) // BUG
	r.fails(bug)
	if !bug {
		r.want(r.a.cq, verbs.WCSuccess)
	}
	must.Do(r.t, r.a.qp.Destroy())
	r.a.qp = nil
	r.close()
}

func completionsNeverPolled(r *rig, bug bool) {
	r.open(settings{}) // BUG
	r.fails(false)
	if !bug {
		r.want(r.a.cq, verbs.WCSuccess)
	}
	must.Do(r.t, r.a.qp.Destroy())
	r.a.qp = nil
	r.close()
}

func errorLeftAtClose(r *rig, bug bool) {
	r.open(settings{}) // BUG
	r.fails(bug)
	if !bug {
		r.want(r.a.cq, verbs.WCSuccess)
	}
	must.Do(r.t, r.a.ctx.Close())
	must.Do(r.t, r.b.ctx.Close())
}

// Both requests have the same number. The completion of an error does not say which of them has failed, and they
// differ in their sizes. So only the peer is told.
func equalNumbersFailed(r *rig, bug bool) {
	r.open(settings{}) // BUG
	first, second, status := r.write(8), r.write(16), verbs.WCSuccess
	first.Flags = 0
	if bug {
		second.RKey, status = second.RKey^0xffff00, verbs.WCRemAccessErr
	}
	must.Do(r.t, r.a.qp.PostSend(first))
	must.Do(r.t, r.a.qp.PostSend(second))
	r.want(r.a.cq, status)
	r.close()
}

// The peer's program has registered too little, or deregisters too early.

func peerBeyondRegion(r *rig, bug bool) {
	r.open(settings{})
	n := 64
	if bug {
		n = 63
	}
	m, err := r.b.pd.RegMR(make([]byte, n), verbs.AccessLocalWrite|verbs.AccessRemote) // BUG
	must.Do(r.t, err)
	r.reads(m.Addr(), m.RKey(), bug) // BUG
	must.Do(r.t, m.Dereg())
	r.close()
}

func peerAfterDeregistration(r *rig, bug bool) {
	r.open(settings{})
	m, err := r.b.pd.RegMR(make([]byte, 64), verbs.AccessLocalWrite|verbs.AccessRemote)
	must.Do(r.t, err)
	key, addr := m.RKey(), m.Addr()
	if !bug {
		r.reads(addr, key, false)
	}
	must.Do(r.t, m.Dereg()) // BUG
	if bug {
		r.reads(addr, key, true) // BUG
	}
	r.close()
}

// reads reads memory of B from A, which B refuses or not.
func (r *rig) reads(addr uint64, key verbs.RKey, refused bool) {
	wr, status := r.read(64), verbs.WCSuccess
	wr.RemoteAddr, wr.RKey = addr, key
	if refused {
		status = verbs.WCRemAccessErr
	}
	must.Do(r.t, r.a.qp.PostSend(wr))
	r.want(r.a.cq, status)
}

// The adapter repeats a message until the peer has a receive. Meanwhile the program changes the payload, and restores it.
func changedAndRestored(r *rig, bug bool) {
	const timer41ms = 24
	r.open(settings{attr: func(a *verbs.QPAttr) { a.MinRNRTimer = timer41ms }})
	must.Do(r.t, r.a.qp.PostSend(r.send(64))) // BUG
	for range 2 {
		r.repeats()
		if bug {
			r.a.mr.Bytes()[63] ^= 1
		}
	}
	r.repeats()
	must.Do(r.t, r.b.qp.PostRecv(r.receive(0, 64)))
	r.want(r.a.cq, verbs.WCSuccess)
	r.want(r.b.cq, verbs.WCSuccess)
	r.close()
}

// repeats waits until A has repeated one more packet.
func (r *rig) repeats() {
	count := func() uint64 {
		all, err := r.a.ctx.Counters()
		must.Do(r.t, err)
		return all[slices.IndexFunc(all, func(c verbs.Counter) bool { return c.Name == "retrans_pkts" })].Value
	}
	for from := count(); count() == from; {
		runtime.Gosched()
	}
}

// The receives of a shared queue have one number, and complete in an order that the numbers do not tell.
func equalNumbersShared(r *rig, _ bool) {
	r.open(settings{shared: true})
	second, err := r.b.ctx.CreateCQ(depth, nil)
	must.Do(r.t, err)
	for i := range 2 {
		must.Do(r.t, r.b.srq.PostRecv(r.receive(uint64(i)*64, 64)))
	}
	// Both queue pairs of side b take a receive, and the program polls the later completion first.
	old := *r.a
	oldB := *r.b
	r.b.cq = second
	r.a.qp, r.b.qp = r.a.newQP(r, r.a.pd), r.b.newQP(r, r.b.pd)
	r.connect(nil)
	must.Do(r.t, old.qp.PostSend(r.send(8)))
	r.want(r.a.cq, verbs.WCSuccess)
	must.Do(r.t, r.a.qp.PostSend(r.send(8)))
	r.want(r.a.cq, verbs.WCSuccess)
	r.want(second, verbs.WCSuccess) // of the second receive
	must.Do(r.t, r.b.srq.PostRecv(r.receive(64, 64)))
	r.want(oldB.cq, verbs.WCSuccess)
	must.Do(r.t, old.qp.Destroy())
	must.Do(r.t, oldB.qp.Destroy())
	must.Do(r.t, oldB.cq.Destroy())
	r.close()
}

// fill posts as many receives as the queue of side b holds.
func (r *rig) fill() {
	for i := range uint64(depth) {
		must.Do(r.t, r.b.qp.PostRecv(r.receive(i*8, 8)))
	}
}

// The queue is empty after RESET, and completes nothing.
func filledAfterReset(r *rig, _ bool) {
	r.open(settings{cqes: depth})
	r.fill()
	r.reset()
	r.fill()
	r.close()
}

// The completion queue has room for the receives of one queue pair. Those of a destroyed one do not complete.
func filledAfterDestroy(r *rig, _ bool) {
	r.open(settings{cqes: depth})
	for range 3 {
		r.fill()
		r.b.qp = r.replace(r.b)
		r.a.qp = r.replace(r.a)
		r.connect(nil)
	}
	r.close()
}

// Receives that a destroyed queue pair has taken from a shared queue do not complete.
func sharedAfterDestroy(r *rig, bug bool) {
	r.open(settings{shared: true}) // BUG
	for i := range uint64(depth) {
		must.Do(r.t, r.b.srq.PostRecv(r.receive(i*8, 8)))
	}
	must.Do(r.t, r.a.qp.PostSend(r.send(8)))
	r.want(r.a.cq, verbs.WCSuccess)
	if !bug {
		r.want(r.b.cq, verbs.WCSuccess)
	}
	must.Do(r.t, r.b.qp.Destroy())
	r.b.qp = nil
	must.Do(r.t, r.b.srq.PostRecv(r.receive(depth*8, 8)))
	r.close()
}

func srqResized(r *rig, _ bool) {
	r.open(settings{shared: true})
	must.Do(r.t, r.b.srq.Resize(2*depth))
	for i := range uint64(2 * depth) {
		must.Do(r.t, r.b.srq.PostRecv(r.receive(i*8, 8)))
	}
	r.close()
}

// All requests of the queue pair are signaled, whatever their flags.
func allSignaled(r *rig, bug bool) {
	r.open(settings{sig: verbs.SigAll})
	wr := r.write(8)
	wr.Flags = 0
	for range 2 * depth {
		r.post(wr) // BUG
		if !bug {
			r.want(r.a.cq, verbs.WCSuccess)
		}
	}
	for i := 0; bug && i < depth; i++ {
		r.want(r.a.cq, verbs.WCSuccess)
	}
	r.close()
}

// Completions with timestamps are looked at, too.
func polledWithTimestamps(r *rig, bug bool) {
	r.open(settings{})
	cq, err := r.a.ctx.CreateCQEx(&verbs.CQInitAttr{CQE: 4, Timestamps: true})
	must.Do(r.t, err)
	must.Do(r.t, r.a.qp.Destroy())
	must.Do(r.t, r.a.cq.Destroy())
	r.a.cq = cq
	r.a.qp, r.b.qp = r.a.newQP(r, r.a.pd), r.replace(r.b)
	r.connect(nil)
	must.Do(r.t, r.a.qp.PostSend(r.write(8))) // BUG
	r.arrives(cq)
	if bug {
		r.a.mr.Bytes()[0]++
	}
	n, err := cq.PollTimestamps(make([]verbs.WC, 1), make([]time.Time, 1))
	if n != 1 || err != nil {
		r.t.Fatalf("polled %d completions: %v", n, err)
	}
	r.close()
}

// A signaled request that has completed does not help those after it.
func neverReclaimedAgain(r *rig, bug bool) {
	r.open(settings{})
	for i := range 4 * depth {
		wr := r.write(8)
		if bug && i > depth || i%4 != 0 {
			wr.Flags = 0
		}
		r.post(wr) // BUG
		if wr.Flags != 0 {
			r.want(r.a.cq, verbs.WCSuccess)
		}
	}
	r.close()
}

// Requests that the adapter refuses take no room.
func refusedTakeNoRoom(r *rig, _ bool) {
	r.open(settings{})
	wrong := r.write(8)
	wrong.InlineData = []byte("without the flag")
	for range depth {
		r.refused(r.a.qp.PostSend(wrong), true)
		must.Do(r.t, r.a.qp.PostSend(r.write(8)))
	}
	for range depth {
		r.want(r.a.cq, verbs.WCSuccess)
	}
	r.close()
}

// full requires that a list was refused with ENOMEM at request n.
func (r *rig) full(err error, n int) {
	r.t.Helper()
	var list *verbs.PostError
	if !errors.Is(err, ib.ENOMEM) || !errors.As(err, &list) || list.Index != n || list.WRID != uint64(n) {
		r.t.Fatalf("a list that is longer than a queue is refused with %v: want ENOMEM at request %d", err, n)
	}
}

// The program posts until the queue is full, even twice in a row, and then polls.
func sendsUntilFull(r *rig, _ bool) {
	r.open(settings{})
	list := make([]verbs.SendWR, depth+2)
	for i := range list {
		list[i] = r.write(8)
		list[i].WRID = uint64(i)
	}
	for range 3 {
		r.full(r.a.qp.PostSend(list...), depth)
		r.arrives(r.a.cq)
		r.full(r.a.qp.PostSend(list[:1]...), 0)
		for range depth {
			r.want(r.a.cq, verbs.WCSuccess)
		}
	}
	r.close()
}

// receivesUntilFull does it with receives. They wait for messages at first, and then for the program.
func (r *rig) receivesUntilFull(q interface{ PostRecv(...verbs.RecvWR) error }) {
	list := make([]verbs.RecvWR, depth+2)
	for i := range list {
		list[i] = r.receive(uint64(i)*8, 8)
		list[i].WRID = uint64(i)
	}
	for range 3 {
		r.full(q.PostRecv(list...), depth)
		for range depth {
			must.Do(r.t, r.a.qp.PostSend(r.send(8)))
			r.want(r.a.cq, verbs.WCSuccess)
			r.full(q.PostRecv(list[:1]...), 0)
		}
		for range depth {
			r.want(r.b.cq, verbs.WCSuccess)
		}
	}
	r.close()
}

func receiveQueueUntilFull(r *rig, _ bool) {
	r.open(settings{})
	r.receivesUntilFull(r.b.qp)
}

func srqUntilFull(r *rig, _ bool) {
	r.open(settings{shared: true})
	r.receivesUntilFull(r.b.srq)
}

// A wrong request has its own error, although the queue is full.
func wrongInFullQueues(r *rig, _ bool) {
	r.open(settings{})
	wrong, long := r.write(8), r.receive(0, 8)
	wrong.Flags, wrong.InlineData = 0, []byte("without the flag")
	long.SGList = make([]verbs.SGE, 3)
	r.fill()
	for range depth {
		wr := r.write(8)
		wr.Flags = 0
		must.Do(r.t, r.a.qp.PostSend(wr))
	}
	srq, err := r.b.pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 1, MaxSGE: 2})
	must.Do(r.t, err)
	must.Do(r.t, srq.PostRecv(r.receive(0, 8)))
	for what, err := range map[string]error{"send": r.a.qp.PostSend(wrong), "receive": r.b.qp.PostRecv(long), "shared receive": srq.PostRecv(long)} {
		must.Fail(r.t, err, ib.EINVAL, "a wrong "+what+" to a full queue")
	}
	must.Do(r.t, srq.Destroy())
	r.close()
}

// A full queue is empty after RESET, and its requests do not complete.
func emptyAfterReset(r *rig, _ bool) {
	r.open(settings{})
	for range 3 {
		r.fill()
		must.Fail(r.t, r.b.qp.PostRecv(r.receive(0, 8)), ib.ENOMEM, "one receive more")
		r.reset()
	}
	r.close()
}

// A bind takes a place of the send queue, too.
func bindsUntilFull(r *rig, _ bool) {
	r.open(settings{})
	mr, err := r.a.pd.RegMR(make([]byte, 64), verbs.AccessLocalWrite|verbs.AccessMWBind)
	must.Do(r.t, err)
	mw, err := r.a.pd.AllocMW(verbs.MWType1)
	must.Do(r.t, err)
	bind := verbs.MWBind{MW: mw, MR: mr, Addr: mr.Addr(), Length: 64, Access: verbs.AccessRemoteRead}
	for range depth {
		must.Do(r.t, r.a.qp.BindMW(1, verbs.SendSignaled, bind))
	}
	must.Fail(r.t, r.a.qp.BindMW(1, verbs.SendSignaled, bind), ib.ENOMEM, "one bind more")
	for range depth {
		r.want(r.a.cq, verbs.WCSuccess)
	}
	must.Do(r.t, r.a.qp.BindMW(1, verbs.SendSignaled, bind))
	r.want(r.a.cq, verbs.WCSuccess)
	must.Do(r.t, mw.Dealloc())
	must.Do(r.t, mr.Dereg())
	r.close()
}

// One call may have two bugs.
func twoBugsAtOnePlace(r *rig, bug bool) {
	r.open(settings{})
	wr, status := r.read(8), verbs.WCSuccess
	wr.Opcode = verbs.WRAtomicFetchAdd
	if bug {
		wr.RemoteAddr, wr.SGList[0].LKey, status = wr.RemoteAddr+4, 0x1234, verbs.WCRemInvReqErr
	}
	must.Do(r.t, r.a.qp.PostSend(wr)) // BUG
	r.want(r.a.cq, status)
	r.close()
}

func TestK1_GoUse(t *testing.T) { runCases(t, useCases(), "use", newRig) }

// useCases returns the cases of this file.
func useCases() []bugCase {
	return []bugCase{
		{"atomic-not-aligned", atomicNotAligned},
		{"message-longer-than-mtu", messageLongerThanMTU},
		{"no-room-for-grh", noRoomForGRH},
		{"peer-access-refused remote-access-error", remoteAccessError},
		{"peer-access-refused remote-access-error", peerBeyondRegion},
		{"peer-access-refused remote-access-error", peerAfterDeregistration},
		{"send-buffer-changed", changedAndRestored},
		{"receive-too-small remote-request-invalid", receiveTooSmall},
		{"local-operation-error", localOperationError},
		{"send-queue-never-reclaimed", sendQueueNeverReclaimed},
		{"send-queue-overfilled", sendQueueOverfilled},
		{"receive-queue-overfilled", receiveQueueOverfilled},
		{"receive-queue-overfilled", srqOverfilled},
		{"cq-too-small", cqTooSmall},
		{"peer-access-refused", equalNumbersFailed},
		{"", equalNumbersShared},
		{"cq-overrun cq-too-small", cqOverrun},
		{"error-never-polled peer-access-refused", errorNeverPolled},
		{"completions-never-polled", completionsNeverPolled},
		{"error-never-polled peer-access-refused", errorLeftAtClose},
		{"", filledAfterReset},
		{"", filledAfterDestroy},
		{"completions-never-polled", sharedAfterDestroy},
		{"", srqResized},
		{"send-queue-overfilled", allSignaled},
		{"send-buffer-changed", polledWithTimestamps},
		{"send-queue-never-reclaimed", neverReclaimedAgain},
		{"", refusedTakeNoRoom},
		{"", sendsUntilFull},
		{"", receiveQueueUntilFull},
		{"", srqUntilFull},
		{"", wrongInFullQueues},
		{"", emptyAfterReset},
		{"", bindsUntilFull},
		{"atomic-not-aligned key-unknown", twoBugsAtOnePlace},
	}
}
