package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/softhca/softhca/verbs"
)

// side is an adapter with memory and a queue pair.
type side struct {
	ctx *verbs.Context
	cq  *verbs.CQ
	mr  *verbs.MR
	qp  *verbs.QP
	end verbs.Endpoint
}

func open(addr string) *side {
	s := &side{ctx: must(verbs.Open(verbs.Config{Addr: addr}))}
	pd := must(s.ctx.AllocPD())
	s.cq = must(s.ctx.CreateCQ(16, nil))
	s.mr = must(pd.RegMR(make([]byte, 4096), verbs.AccessLocalWrite))
	s.qp = must(pd.CreateQP(&verbs.QPInitAttr{
		Type: verbs.RC, SendCQ: s.cq, RecvCQ: s.cq,
		Cap: verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 1, MaxRecvSGE: 1},
	}))
	s.end = must(s.qp.Endpoint(verbs.RandomPSN(), s.ctx.GIDIndex()))
	return s
}

// complete waits for a completion.
func (s *side) complete() verbs.WC {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	wcs := make([]verbs.WC, 1)
	for must(s.cq.Poll(wcs)) == 0 {
		check(s.cq.Wait(ctx))
	}
	check(wcs[0].Err())
	return wcs[0]
}

func main() {
	a, b := open("127.0.0.1"), open("127.0.0.2")
	defer a.ctx.Close()
	defer b.ctx.Close()

	// Each side needs the other's Endpoint. Programs on two hosts send it over TCP, say:
	// an Endpoint has a form as text.
	check(a.qp.Connect(a.end, b.end, verbs.ConnectionAttr()))
	check(b.qp.Connect(b.end, a.end, verbs.ConnectionAttr()))

	check(b.qp.PostRecv(verbs.RecvWR{WRID: 1, SGList: []verbs.SGE{b.mr.SGE(0, 4096)}}))
	n := copy(a.mr.Bytes(), "hello")
	check(a.qp.PostSend(verbs.SendWR{
		WRID: 2, Opcode: verbs.WRSend, Flags: verbs.SendSignaled,
		SGList: []verbs.SGE{a.mr.SGE(0, uint32(n))},
	}))
	fmt.Println("sent:", a.complete().Status)
	wc := b.complete()
	fmt.Printf("received: %s\n", b.mr.Bytes()[:wc.ByteLen])
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}
