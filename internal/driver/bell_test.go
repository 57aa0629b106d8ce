package driver

import (
	"sync"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/qp"
)

// silentQP makes a UC queue pair in RTS, of whose messages nothing is heard.
func (s *side) silentQP(t *testing.T, peer *side) *qp.QP {
	t.Helper()
	var q *qp.QP
	a := ib.QPAttr{
		Port: 1, PathMTU: ib.MTU1024, DestQPN: 0x777777,
		AV: ib.AHAttr{DGID: ib.GIDFromAddr(peer.addr), HopLimit: 64, Port: 1},
	}
	must.Do(t, s.drv.Control(func(clock.Instant) {
		var err error
		q, err = s.hca.CreateQP(s.pd, hca.QPConfig{
			Type: ib.UC, SendCQ: s.cq, RecvCQ: s.cq, SigAll: true, Cap: ib.QPCap{MaxSendWR: 1},
		})
		must.Do(t, err)
	}))
	s.do(t, func(now clock.Instant) {
		for _, step := range []struct {
			to   ib.QPState
			mask ib.AttrMask
		}{
			{ib.INIT, ib.AttrPKeyIndex | ib.AttrPort | ib.AttrAccessFlags},
			{ib.RTR, ib.AttrAV | ib.AttrPathMTU | ib.AttrDestQPN | ib.AttrRQPSN},
			{ib.RTS, ib.AttrSQPSN},
		} {
			a.State = step.to
			must.Do(t, q.Modify(now, &a, step.mask|ib.AttrState))
		}
	})
	return q
}

// TestDoorbellWhileTheHolderSends posts on one queue pair while the thread that
// holds the shard sends for another, after it has looked for posts: it answers
// the doorbell when it releases the lock. No arrival could trigger it instead,
// because the request needs no acknowledgement.
func TestDoorbellWhileTheHolderSends(t *testing.T) {
	a, b := newSides(t)
	first := a.silentQP(t, b)
	second := a.silentQP(t, b)
	a.idle(t)
	for round := range 20 {
		var once sync.Once
		posted := make(chan struct{})
		ring := func() {
			once.Do(func() {
				go func() {
					defer close(posted)
					a.drv.Post(second, qp.Posted{})
				}()
				<-posted
			})
		}
		for i, q := range []*qp.QP{first, second} {
			_, err := q.PostSend(ib.SendWR{WRID: uint64(i), Opcode: ib.WRSend})
			must.Do(t, err)
		}
		a.port.onSend.Store(&ring)
		a.drv.Post(first, qp.Posted{})
		<-posted
		a.port.onSend.Store(nil)
		for _, want := range []uint64{0, 1} {
			if wc := a.completion(t); wc.WRID != want || wc.Status != ib.WCSuccess {
				t.Fatalf("round %d: completion %+v, want request %d", round, wc, want)
			}
		}
	}
}
