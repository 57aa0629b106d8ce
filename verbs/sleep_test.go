package verbs

import (
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// TestLongMessageWithoutPolling checks that a sleeping program gets the completion of a
// message that is longer than one call sends, although no acknowledgement wakes a
// thread.
func TestLongMessageWithoutPolling(t *testing.T) {
	net := NewNetwork()
	a := newEndpoint(t, Config{Addr: "10.0.0.1", Network: net}, ib.UC)
	b := newEndpoint(t, Config{Addr: "10.0.0.2", Network: net}, ib.UC)
	attr := QPAttr{
		Port: 1, AccessFlags: ib.AccessRemote, PathMTU: ib.MTU4096, DestQPN: b.qp.QPN(),
		AV: AHAttr{DGID: b.ctx.QueryGID(0), HopLimit: 64, Port: 1},
	}
	for _, step := range []struct {
		to   ib.QPState
		mask ib.AttrMask
	}{
		{ib.INIT, ib.AttrPKeyIndex | ib.AttrPort | ib.AttrAccessFlags},
		{ib.RTR, ib.AttrAV | ib.AttrPathMTU | ib.AttrDestQPN | ib.AttrRQPSN},
		{ib.RTS, ib.AttrSQPSN},
	} {
		attr.State = step.to
		must.Do(t, a.qp.Modify(&attr, step.mask|ib.AttrState))
	}
	must.Do(t, a.cq.ReqNotify(false))
	n := uint32(a.mr.Len()) // 4 MiB, of which a call sends 2
	wr := SendWR{Opcode: ib.WRRDMAWrite, SGList: []SGE{a.mr.SGE(0, n)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
	must.Do(t, a.qp.PostSend(wr))
	select {
	case <-a.ch.C():
	case <-time.After(10 * time.Second):
		t.Fatal("the message was started and never finished")
	}
	wc := make([]WC, 1)
	if got := poll(t, a.cq, wc); got != 1 || wc[0].Status != ib.WCSuccess {
		t.Errorf("%d completions, the first %+v", got, wc[0])
	}
}

// TestSolicitedKeepsNext arms for any completion and then for solicited ones
// only: the first arming stays in force.
func TestSolicitedKeepsNext(t *testing.T) {
	a, b := newConnected(t, ib.RC)
	must.Do(t, b.cq.ReqNotify(false))
	must.Do(t, b.cq.ReqNotify(true))
	must.Do(t, b.qp.PostRecv(RecvWR{}))
	must.Do(t, a.qp.PostSend(SendWR{Opcode: ib.WRSend})) // not solicited
	if next(t, b.ch) != b.cq {
		t.Error("the event is of another CQ")
	}
}
