package verbs

import (
	"syscall"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// TestConnectUsesTheAddressOfItsEnd connects adapters with several addresses over
// an address other than the first: the peer would not accept packets from the first one.
func TestConnectUsesTheAddressOfItsEnd(t *testing.T) {
	n := NewNetwork()
	a := newEndpoint(t, Config{Network: n, Addr: "fe80::1,10.0.0.1,10.0.1.1"}, ib.RC)
	b := newEndpoint(t, Config{Network: n, Addr: "fe80::2,10.0.0.2,10.0.1.2"}, ib.RC)
	if i := a.ctx.GIDIndex(); i != 1 {
		t.Errorf("GID index %d is for peers beyond the link, want 1: index 0 is link-local", i)
	}
	own, err := a.qp.Endpoint(NewPSN(0x1234), 2)
	must.Do(t, err)
	other, err := b.qp.Endpoint(RandomPSN(), 2)
	must.Do(t, err)

	must.Fail(t, a.qp.Connect(other, own, ConnectionAttr()), syscall.EINVAL, "connect by the end of another queue pair")
	none := own
	none.GID = GID{}
	must.Fail(t, a.qp.Connect(none, other, ConnectionAttr()), syscall.EINVAL, "connect from no address")
	must.Fail(t, (*QP)(nil).Connect(own, other, ConnectionAttr()), syscall.EINVAL, "connect no queue pair")
	if s := a.qp.State(); s != ib.RESET {
		t.Fatalf("the queue pair is in %v after calls that failed, want RESET", s)
	}

	must.Do(t, a.qp.Connect(own, other, ConnectionAttr()))
	must.Do(t, b.qp.Connect(other, own, ConnectionAttr()))
	must.Do(t, b.qp.PostRecv(RecvWR{WRID: 1, SGList: []SGE{b.mr.SGE(0, 64)}}))
	must.Do(t, a.qp.PostSend(SendWR{WRID: 2, Opcode: WRSend, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, 5)}}))
	for _, q := range []*CQ{a.cq, b.cq} {
		wcs := make([]WC, 1)
		for poll(t, q, wcs) == 0 {
		}
		must.Do(t, wcs[0].Err())
	}
	attr, err := a.qp.Query()
	must.Do(t, err)
	if attr.AV.SGIDIndex != 2 || attr.AV.DGID != other.GID || attr.RQPSN != other.PSN {
		t.Errorf("connected from GID index %d to %v, next PSN %v: want 2, %v, %v", attr.AV.SGIDIndex, attr.AV.DGID, attr.RQPSN, other.GID, other.PSN)
	}
}
