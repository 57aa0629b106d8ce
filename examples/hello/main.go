package main

import (
	"fmt"
	"log"
	"os"

	"github.com/softhca/softhca/ib"
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
	if s.mr, err = pd.RegMR(s.buf, ib.AccessLocalWrite|ib.AccessRemoteWrite); err != nil {
		return nil, err
	}
	s.qp, err = pd.CreateQP(&verbs.QPInitAttr{
		Type: ib.RC, SendCQ: s.cq, RecvCQ: s.cq,
		Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	return s, err
}

// connect takes the queue pair from RESET to RTS. A real program learns the peer's QP
// number, GID and first PSN (0 here) from the peer, over TCP or by package rdmacm.
func (s *side) connect(peer *side) error {
	return s.qp.ModifyToRTS(verbs.QPAttr{
		Port: 1, AccessFlags: ib.AccessRemoteWrite,
		PathMTU: ib.MTU1024, DestQPN: peer.qp.QPN(), MaxDestRDAtomic: 1,
		AV:      verbs.AHAttr{DGID: peer.ctx.QueryGID(0), HopLimit: 64, Port: 1},
		Timeout: 14, RetryCnt: 7, RNRRetry: 7, MaxRDAtomic: 1,
	})
}

// write posts an RDMA WRITE and waits for its completion.
func (s *side) write(text string, peer *side, key ib.RKey) (ib.WCStatus, error) {
	n := copy(s.buf, text)
	err := s.qp.PostSend(verbs.SendWR{
		Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled,
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
	if err := a.connect(b); err != nil {
		return err
	}
	if err := b.connect(a); err != nil {
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
