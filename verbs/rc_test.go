package verbs

import (
	"bytes"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
)

// endpoint is one side of a test connection.
type endpoint struct {
	ctx *Context
	pd  *PD
	cq  *CQ
	qp  *QP
	mr  *MR
	ch  *CompChannel
}

func newEndpoint(t testing.TB, cfg Config, typ ib.QPType) *endpoint {
	t.Helper()
	e := &endpoint{ch: NewCompChannel()}
	var err error
	if e.ctx, err = Open(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.ctx.Close() })
	if e.pd, err = e.ctx.AllocPD(); err != nil {
		t.Fatal(err)
	}
	if e.cq, err = e.ctx.CreateCQ(2048, e.ch); err != nil {
		t.Fatal(err)
	}
	if e.mr, err = e.pd.RegMR(make([]byte, 4<<20), ib.AccessLocalWrite|ib.AccessRemote); err != nil {
		t.Fatal(err)
	}
	e.qp, err = e.pd.CreateQP(&QPInitAttr{
		Type: typ, SendCQ: e.cq, RecvCQ: e.cq, SQSig: ib.SigAll,
		Cap: QPCap{MaxSendWR: 512, MaxRecvWR: 64, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInlineData: 64},
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// connectRC walks both QPs to RTS.
func connectRC(t testing.TB, a, b *endpoint) {
	t.Helper()
	for _, p := range [][2]*endpoint{{a, b}, {b, a}} {
		attr := QPAttr{
			Port: 1, AccessFlags: ib.AccessRemote, PathMTU: ib.MTU4096, DestQPN: p[1].qp.QPN(),
			RQPSN: ib.NewPSN(100), SQPSN: ib.NewPSN(100), MaxDestRDAtomic: 4, MaxRDAtomic: 4,
			MinRNRTimer: 12, Timeout: 14, RetryCnt: 7, RNRRetry: 7,
			AV: AHAttr{DGID: p[1].ctx.QueryGID(0), HopLimit: 64, Port: 1},
		}
		for _, step := range []struct {
			to   ib.QPState
			mask ib.AttrMask
		}{
			{ib.INIT, ib.AttrPKeyIndex | ib.AttrPort | ib.AttrAccessFlags},
			{ib.RTR, ib.AttrAV | ib.AttrPathMTU | ib.AttrDestQPN | ib.AttrRQPSN | ib.AttrMaxDestRDAtomic | ib.AttrMinRNRTimer},
			{ib.RTS, ib.AttrTimeout | ib.AttrRetryCnt | ib.AttrRNRRetry | ib.AttrSQPSN | ib.AttrMaxRDAtomic},
		} {
			attr.State = step.to
			if err := p[0].qp.Modify(&attr, step.mask|ib.AttrState); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// wait polls n completions, failing the test after a generous time.
func (e *endpoint) wait(t testing.TB, n int) []WC {
	t.Helper()
	var all []WC
	buf := make([]WC, 16)
	for end := time.Now().Add(20 * time.Second); len(all) < n; {
		k := e.cq.Poll(buf)
		all = append(all, buf[:k]...)
		if k == 0 && time.Now().After(end) {
			t.Fatalf("%d of %d completions after 20 s; QP is %v", len(all), n, e.qp.State())
		}
	}
	for _, wc := range all {
		if wc.Status != ib.WCSuccess {
			t.Fatalf("completion %+v: %v", wc, wc.Status)
		}
	}
	return all
}

func testWrite(t *testing.T, a, b *endpoint) {
	t.Helper()
	connectRC(t, a, b)
	src := a.mr.Bytes()[:1<<20]
	for i := range src {
		src[i] = byte(i * 7 >> 3)
	}
	for round := range 20 {
		err := a.qp.PostSend(SendWR{
			WRID: uint64(round), Opcode: ib.WRRDMAWrite, SGList: []SGE{a.mr.SGE(0, 1<<20)},
			RemoteAddr: b.mr.Addr() + uint64(round&1)<<20, RKey: b.mr.RKey(),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	a.wait(t, 20)
	if !bytes.Equal(b.mr.Bytes()[:1<<20], src) || !bytes.Equal(b.mr.Bytes()[1<<20:2<<20], src) {
		t.Fatal("WRITE placed other bytes")
	}
}

func TestWriteInProcess(t *testing.T) {
	n := NewNetwork()
	testWrite(t,
		newEndpoint(t, Config{Addr: "10.0.0.1", Network: n}, ib.RC),
		newEndpoint(t, Config{Addr: "10.0.0.2", Network: n}, ib.RC))
}

func TestWriteUDP(t *testing.T) {
	a := newEndpoint(t, Config{Addr: "127.0.81.1"}, ib.RC)
	b := newEndpoint(t, Config{Addr: "127.0.81.2"}, ib.RC)
	testWrite(t, a, b)
	for _, e := range []*endpoint{a, b} {
		c, err := e.ctx.Counters()
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range c {
			if n.Value != 0 {
				t.Log(n.Name, n.Value)
			}
		}
	}
}
