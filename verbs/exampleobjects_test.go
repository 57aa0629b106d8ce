package verbs_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"syscall"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// pair returns two connected sides.
func pair() (a, b *side) {
	n := verbs.NewNetwork()
	a, b = newSide(n, "10.0.0.1", ib.RC), newSide(n, "10.0.0.2", ib.RC)
	a.connect(b)
	b.connect(a)
	return a, b
}

// must ends the example on an error.
func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A SEND is stored in the peer's next receive, together with four bytes of
// immediate data.
func ExampleQP_PostSend() {
	a, b := pair()
	defer a.ctx.Close()
	defer b.ctx.Close()

	must(b.qp.PostRecv(verbs.RecvWR{WRID: 7, SGList: []verbs.SGE{b.mr.SGE(0, 4096)}}))
	n := copy(a.mr.Bytes(), "a message")
	must(a.qp.PostSend(verbs.SendWR{
		WRID: 1, Opcode: ib.WRSendWithImm, ImmData: 42,
		SGList: []verbs.SGE{a.mr.SGE(0, uint32(n))},
	}))
	wc := b.poll()
	fmt.Printf("receive %d: %v, immediate %d, %q\n", wc.WRID, wc.Status, wc.ImmData, b.mr.Bytes()[:wc.ByteLen])
	fmt.Println("send:", a.poll().Status)
	// Output:
	// receive 7: SUCCESS, immediate 42, "a message"
	// send: SUCCESS
}

// The requests of a list before the first invalid one are posted.
func ExamplePostError() {
	a, b := pair()
	defer a.ctx.Close()
	defer b.ctx.Close()

	good := verbs.SendWR{
		WRID: 1, Opcode: ib.WRRDMAWrite, SGList: []verbs.SGE{a.mr.SGE(0, 8)},
		RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
	}
	bad := verbs.SendWR{WRID: 2, Opcode: ib.WRAtomicFetchAdd, SGList: []verbs.SGE{a.mr.SGE(0, 4)}}
	err := a.qp.PostSend(good, bad)
	var which *verbs.PostError
	if errors.As(err, &which) {
		fmt.Println("refused:", which.Index, err)
	}
	fmt.Println("request", a.poll().WRID, "was posted")
	// Output:
	// refused: 1 work request 1 (wr_id 0x2): post send: ATOMIC_FETCH_AND_ADD returns 8 bytes, the list holds 4: invalid argument
	// request 1 was posted
}

// The error of a refused Modify names the missing attributes. Nothing changes.
func ExampleQP_Modify() {
	a := newSide(verbs.NewNetwork(), "10.0.0.1", ib.RC)
	defer a.ctx.Close()

	err := a.qp.Modify(&verbs.QPAttr{State: ib.INIT, Port: 1}, ib.AttrState|ib.AttrPort)
	fmt.Println(err)
	err = a.qp.Modify(&verbs.QPAttr{State: ib.RTS}, ib.AttrState)
	fmt.Println(err)
	fmt.Println(errors.Is(err, syscall.EINVAL), a.qp.State())
	// Output:
	// modify RESET to INIT: missing ACCESS_FLAGS, PKEY_INDEX
	// modify RESET to RTS: not allowed for RC; modify leads from RESET to RESET, INIT, ERR
	// true RESET
}

// A program sleeps until a request completes or another event happens.
func ExampleCompChannel() {
	a, b := pair()
	defer a.ctx.Close()
	defer b.ctx.Close()

	ch := verbs.NewCompChannel(1)
	cq, err := b.ctx.CreateCQ(16, ch)
	must(err)
	b.cq = cq
	b.qp, err = b.pd.CreateQP(&verbs.QPInitAttr{
		Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxRecvWR: 1, MaxRecvSGE: 1},
	})
	must(err)
	must(a.qp.Modify(&verbs.QPAttr{State: ib.RESET}, ib.AttrState))
	a.connect(b)
	b.connect(a)

	must(b.qp.PostRecv(verbs.RecvWR{WRID: 1, SGList: []verbs.SGE{b.mr.SGE(0, 4096)}}))
	must(cq.ReqNotify(false)) // any completion, not only solicited ones
	must(a.qp.PostSend(verbs.SendWR{Opcode: ib.WRSend}))

	stop := make(chan struct{})
	for done := false; !done; {
		select {
		case q := <-ch.C():
			must(q.ReqNotify(false)) // arm first, then poll until it is empty:
			wc := make([]verbs.WC, 4)
			for {
				n, err := q.Poll(wc)
				must(err)
				if n == 0 {
					break
				}
				fmt.Println("receive", wc[0].WRID, wc[0].Status)
				done = true
			}
		case <-stop:
			return
		}
	}
	// Output:
	// receive 1 SUCCESS
}

// Asynchronous events report what no completion does. Here the WRITE has a wrong key:
// the requester gets a completion, the responder an event.
func ExampleContext_GetAsyncEvent() {
	a, b := pair()
	defer a.ctx.Close()
	defer b.ctx.Close()

	must(a.qp.PostSend(verbs.SendWR{
		Opcode: ib.WRRDMAWrite, SGList: []verbs.SGE{a.mr.SGE(0, 8)},
		RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey() + 1,
	}))
	fmt.Println("completion:", a.poll().Status)
	ev, err := b.ctx.GetAsyncEvent(context.Background())
	must(err)
	fmt.Println("event:", ev.Type, ev.QP == b.qp)
	ev.Ack() // the QP cannot be destroyed before
	fmt.Println(a.qp.State())
	// Output:
	// completion: REM_ACCESS_ERR
	// event: QP_ACCESS_ERR true
	// ERR
}

// Several QPs share receives, and an event reports that few are left.
func ExampleSRQ() {
	n := verbs.NewNetwork()
	a, b := newSide(n, "10.0.0.1", ib.RC), newSide(n, "10.0.0.2", ib.RC)
	defer a.ctx.Close()
	defer b.ctx.Close()

	srq, err := b.pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 4, MaxSGE: 1, Limit: 2})
	must(err)
	b.qp, err = b.pd.CreateQP(&verbs.QPInitAttr{Type: ib.RC, SendCQ: b.cq, RecvCQ: b.cq, SRQ: srq})
	must(err)
	a.connect(b)
	b.connect(a)

	for i := range uint64(2) {
		must(srq.PostRecv(verbs.RecvWR{WRID: i, SGList: []verbs.SGE{b.mr.SGE(i*64, 64)}}))
	}
	must(a.qp.PostSend(verbs.SendWR{Opcode: ib.WRSend}))
	fmt.Println("receive", b.poll().WRID)
	ev, err := b.ctx.GetAsyncEvent(context.Background())
	must(err)
	fmt.Println(ev.Type, ev.SRQ == srq)
	ev.Ack()
	// Output:
	// receive 0
	// SRQ_LIMIT_REACHED true
}

// A UD message names its destination: address handle, QPN and Q_Key.
func ExamplePD_CreateAH() {
	n := verbs.NewNetwork()
	a, b := newSide(n, "10.0.0.1", ib.UD), newSide(n, "10.0.0.2", ib.UD)
	defer a.ctx.Close()
	defer b.ctx.Close()
	const qkey = 0x1234
	for _, s := range []*side{a, b} {
		attr := verbs.QPAttr{State: ib.INIT, Port: 1, QKey: qkey}
		must(s.qp.Modify(&attr, ib.AttrState|ib.AttrPKeyIndex|ib.AttrPort|ib.AttrQKey))
		attr.State = ib.RTR
		must(s.qp.Modify(&attr, ib.AttrState))
		attr.State = ib.RTS
		must(s.qp.Modify(&attr, ib.AttrState|ib.AttrSQPSN))
	}

	ah, err := a.pd.CreateAH(verbs.AHAttr{DGID: b.ctx.QueryGID(0), HopLimit: 64, Port: 1})
	must(err)
	must(b.qp.PostRecv(verbs.RecvWR{SGList: []verbs.SGE{b.mr.SGE(0, 4096)}}))
	size := copy(a.mr.Bytes(), "a datagram")
	must(a.qp.PostSend(verbs.SendWR{
		Opcode: ib.WRSend, SGList: []verbs.SGE{a.mr.SGE(0, uint32(size))},
		AH: ah, RemoteQPN: b.qp.QPN(), RemoteQKey: qkey,
	}))
	wc := b.poll()
	// The first 40 bytes hold the IP header of the message.
	fmt.Printf("%q from the sender's QP: %v\n", b.mr.Bytes()[40:wc.ByteLen], wc.SrcQP == a.qp.QPN())
	// Output:
	// "a datagram" from the sender's QP: true
}

// The error of a completion says what its status means, and errors.Is finds the
// status in it.
func ExampleWCError() {
	a, b := pair()
	defer a.ctx.Close()
	defer b.ctx.Close()

	must(a.qp.PostSend(verbs.SendWR{
		WRID: 3, Opcode: ib.WRRDMAWrite, SGList: []verbs.SGE{a.mr.SGE(0, 8)},
		RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey() + 1,
	}))
	err := a.poll().Err()
	fmt.Println("refused by the peer:", errors.Is(err, verbs.WCRemAccessErr))
	_, means, _ := strings.Cut(err.Error(), "REM_ACCESS_ERR: ") // the QPN before it is a random one
	means, look, _ := strings.Cut(means, "; ")
	fmt.Println(means)
	fmt.Println(look)
	// Output:
	// refused by the peer: true
	// the peer's memory region does not allow this access
	// check RKey, RemoteAddr and length, that the region is registered still, of the PD of the peer's QP, and has the remote rights; the QP's AccessFlags count too
}

// A program that sleeps until its CQ has completions polls first, and waits if there
// are none.
func ExampleCQ_Wait() {
	a, b := pair()
	defer a.ctx.Close()
	defer b.ctx.Close()

	must(b.qp.PostRecv(verbs.RecvWR{WRID: 7, SGList: []verbs.SGE{b.mr.SGE(0, 4096)}}))
	must(a.qp.PostSend(verbs.SendWR{Opcode: ib.WRSend, SGList: []verbs.SGE{a.mr.SGE(0, 5)}}))

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	wcs := make([]verbs.WC, 16)
	n := 0
	for n == 0 {
		var err error
		if n, err = b.cq.Poll(wcs); n == 0 && err == nil {
			err = b.cq.Wait(ctx)
		}
		must(err)
	}
	fmt.Printf("receive %d: %v, %d bytes\n", wcs[0].WRID, wcs[0].Status, wcs[0].ByteLen)
	// Output:
	// receive 7: SUCCESS, 5 bytes
}

// A rule drops the first packet of a WRITE, as a bad network may. The adapter
// retransmits it, and the program only notices that the WRITE takes longer.
func ExampleFaults() {
	n := verbs.NewNetwork()
	a, err := verbs.Open(verbs.Config{Network: n, Addr: "10.0.0.1"}, verbs.WithFaults("drop nth=1 op=RDMA_WRITE_ONLY", 1))
	must(err)
	defer a.Close()
	from, to := newSideOn(a, ib.RC), newSide(n, "10.0.0.2", ib.RC)
	defer to.ctx.Close()
	from.connect(to)
	to.connect(from)

	must(from.qp.PostSend(verbs.SendWR{
		Opcode: ib.WRRDMAWrite, SGList: []verbs.SGE{from.mr.SGE(0, 8)}, RemoteAddr: to.mr.Addr(), RKey: to.mr.RKey(),
	}))
	fmt.Println("the WRITE:", from.poll().Status)
	for _, s := range a.FaultStats() {
		fmt.Printf("%q acted %d time\n", s.Rule, s.Applied)
	}
	// Output:
	// the WRITE: SUCCESS
	// "drop nth=1 op=RDMA_WRITE_ONLY" acted 1 time
}

// A rule makes a verb fail with an errno that is hard to provoke otherwise, to test
// the program's reaction.
func ExampleWithFaults() {
	ctx, err := verbs.Open(verbs.Config{Network: verbs.NewNetwork(), Addr: "10.0.0.1"},
		verbs.WithFaults("fail op=RegMR errno=ENOMEM nth=2", 1))
	must(err)
	defer ctx.Close()
	pd, err := ctx.AllocPD()
	must(err)
	for range 3 {
		_, err := pd.RegMR(make([]byte, 4096), ib.AccessLocalWrite)
		fmt.Println("no memory:", errors.Is(err, syscall.ENOMEM))
	}
	// Output:
	// no memory: false
	// no memory: true
	// no memory: false
}

// A memory window gives the peer a part of a region, and takes it away.
func ExampleQP_BindMW() {
	a, b := pair()
	defer a.ctx.Close()
	defer b.ctx.Close()

	region, err := b.pd.RegMR(make([]byte, 4096), ib.AccessLocalWrite|ib.AccessMWBind)
	must(err)
	window, err := b.pd.AllocMW(verbs.MWType1)
	must(err)
	bind := func(part verbs.MWBind) {
		must(b.qp.BindMW(1, verbs.SendSignaled, part))
		fmt.Println("bind:", b.poll().Status)
	}
	write := func() {
		must(a.qp.PostSend(verbs.SendWR{
			WRID: 2, Opcode: ib.WRRDMAWrite, SGList: []verbs.SGE{a.mr.SGE(0, 8)},
			RKey: window.RKey(), RemoteAddr: region.Addr() + 64,
		}))
		fmt.Println("write:", a.poll().Status)
	}
	bind(verbs.MWBind{MW: window, MR: region, Addr: region.Addr() + 64, Length: 64, Access: verbs.AccessRemoteWrite})
	write()
	bind(verbs.MWBind{MW: window}) // to nothing
	write()
	// Output:
	// bind: SUCCESS
	// write: SUCCESS
	// bind: SUCCESS
	// write: REM_ACCESS_ERR
}
