package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/softhca/softhca/verbs"
)

// side is an adapter with memory and a queue pair.
type side struct {
	ctx *verbs.Context
	buf []byte
	mr  *verbs.MR
	cq  *verbs.CQ
	qp  *verbs.QP
}

func open(addr string) (*side, error) {
	ctx, err := verbs.Open(verbs.Config{Addr: addr})
	if err != nil {
		return nil, err
	}
	s := &side{ctx: ctx, buf: make([]byte, 64)}
	pd, err := ctx.AllocPD()
	if err != nil {
		return nil, err
	}
	if s.cq, err = ctx.CreateCQ(16, nil); err != nil {
		return nil, err
	}
	if s.mr, err = pd.RegMR(s.buf, verbs.AccessLocalWrite|verbs.AccessRemoteWrite); err != nil {
		return nil, err
	}
	s.qp, err = pd.CreateQP(&verbs.QPInitAttr{
		Type: verbs.RC, SendCQ: s.cq, RecvCQ: s.cq,
		Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	return s, err
}

// connect connects the queue pairs. Two programs would send each other their
// Endpoint over TCP, or connect by package rdmacm.
func connect(a, b *side) error {
	ends := make([]verbs.Endpoint, 2)
	for i, s := range []*side{a, b} {
		var err error
		if ends[i], err = s.qp.Endpoint(verbs.RandomPSN(), s.ctx.GIDIndex()); err != nil {
			return err
		}
	}
	if err := a.qp.Connect(ends[0], ends[1], verbs.ConnectionAttr()); err != nil {
		return err
	}
	return b.qp.Connect(ends[1], ends[0], verbs.ConnectionAttr())
}

// write posts an RDMA WRITE and waits for its completion.
func (s *side) write(text string, peer *side, key verbs.RKey) (verbs.WCStatus, error) {
	n := copy(s.buf, text)
	err := s.qp.PostSend(verbs.SendWR{
		Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled,
		SGList:     []verbs.SGE{s.mr.SGE(0, uint32(n))},
		RemoteAddr: peer.mr.Addr(), RKey: key,
	})
	if err != nil {
		return 0, err
	}
	wc := make([]verbs.WC, 1)
	for {
		if n, err := s.cq.Poll(wc); n > 0 || err != nil {
			return wc[0].Status, err
		}
		if err := s.cq.Wait(context.Background()); err != nil {
			return 0, err
		}
	}
}

func run(addrs []string) error {
	a, err := open(addrs[0])
	if err != nil {
		return err
	}
	defer a.ctx.Close()
	b, err := open(addrs[1])
	if err != nil {
		return err
	}
	defer b.ctx.Close()
	if err := connect(a, b); err != nil {
		return err
	}
	const text = "hello, world"
	status, err := a.write(text, b, b.mr.RKey())
	if err != nil {
		return err
	}
	fmt.Printf("a WRITE: %v\nthe memory has: %s\n", status, b.buf[:len(text)])
	status, err = a.write(text, b, b.mr.RKey()^0xff)
	if err != nil {
		return err
	}
	fmt.Printf("a wrong key: %v\n", status)
	return nil
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: hello ADDRESS ADDRESS, two of this host, such as 127.0.0.1 127.0.0.2")
	}
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}
