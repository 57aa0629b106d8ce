package verbs_test

import (
	"fmt"
	"log"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// side is an adapter with the objects that a connection needs.
type side struct {
	ctx *verbs.Context
	pd  *verbs.PD
	cq  *verbs.CQ
	qp  *verbs.QP
	mr  *verbs.MR
}

// newSide opens an adapter on addr of a network in memory. Without Network it would
// have a UDP socket on an address of the host.
func newSide(n *verbs.Network, addr string, typ ib.QPType) *side {
	ctx, err := verbs.Open(verbs.Config{Network: n, Addr: addr})
	if err != nil {
		log.Fatal(err)
	}
	return newSideOn(ctx, typ)
}

// newSideOn creates the objects on an open adapter.
func newSideOn(ctx *verbs.Context, typ ib.QPType) *side {
	s := &side{ctx: ctx}
	var err error
	check := func() {
		if err != nil {
			log.Fatal(err)
		}
	}
	s.pd, err = s.ctx.AllocPD()
	check()
	s.cq, err = s.ctx.CreateCQ(16, nil)
	check()
	s.mr, err = s.pd.RegMR(make([]byte, 4096), ib.AccessLocalWrite|ib.AccessRemote)
	check()
	s.qp, err = s.pd.CreateQP(&verbs.QPInitAttr{
		Type: typ, SendCQ: s.cq, RecvCQ: s.cq, SQSig: ib.SigAll,
		Cap: verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	check()
	return s
}

// connect moves an RC QP from RESET to RTS. Programs exchange QPN, GID and first PSN
// by other means, such as a TCP connection.
func (s *side) connect(peer *side) {
	attr := verbs.QPAttr{
		Port: 1, AccessFlags: ib.AccessRemote, // INIT
		PathMTU: ib.MTU1024, DestQPN: peer.qp.QPN(), MaxDestRDAtomic: 1, // RTR
		AV:      verbs.AHAttr{DGID: peer.ctx.QueryGID(0), HopLimit: 64, Port: 1},
		Timeout: 14, RetryCnt: 7, RNRRetry: 7, MaxRDAtomic: 1, // RTS
	}
	if err := s.qp.ModifyToRTS(attr); err != nil {
		log.Fatal(err)
	}
}

// poll waits for one completion.
func (s *side) poll() verbs.WC {
	wc := make([]verbs.WC, 1)
	for {
		switch n, err := s.cq.Poll(wc); {
		case err != nil:
			log.Fatal(err)
		case n > 0:
			return wc[0]
		}
	}
}

// Two adapters in one process; one writes to the memory of the other.
func Example() {
	n := verbs.NewNetwork()
	a, b := newSide(n, "10.0.0.1", ib.RC), newSide(n, "10.0.0.2", ib.RC)
	defer a.ctx.Close()
	defer b.ctx.Close()
	a.connect(b)
	b.connect(a)

	text := "written by the other side"
	copy(a.mr.Bytes(), text)
	err := a.qp.PostSend(verbs.SendWR{
		WRID: 1, Opcode: ib.WRRDMAWrite,
		SGList:     []verbs.SGE{a.mr.SGE(0, uint32(len(text)))},
		RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
	})
	if err != nil {
		log.Fatal(err)
	}
	wc := a.poll()
	fmt.Printf("request %d: %v %v\n", wc.WRID, wc.Opcode, wc.Status)
	fmt.Printf("%s\n", b.mr.Bytes()[:len(text)])
	// Output:
	// request 1: RDMA_WRITE SUCCESS
	// written by the other side
}
