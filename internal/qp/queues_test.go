package qp_test

import (
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/ring"
)

// TestProducersRingInERR shows that a receive queue asks producers that write
// it without calls to ring the doorbell only while its queue pair is in ERR,
// and that receives published then are flushed after the doorbell.
func TestProducersRingInERR(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{})
	send, recv := s.QP.Queues()
	if send.Stride == recv.Stride || send.Mask == 0 || recv.Mask == 0 {
		t.Fatalf("queues %+v and %+v are not the two of the queue pair", send, recv)
	}
	asks := func() bool { return recv.Flags.Load()&ring.FlagDoorbell != 0 }
	if asks() {
		t.Error("in RTS a receive asks for the doorbell")
	}
	rig.Must(t, s.QP.Modify(s.Now, &ib.QPAttr{State: ib.ERR}, ib.AttrState))
	if !asks() {
		t.Error("in ERR a receive does not ask for the doorbell")
	}
	if n, err := s.QP.PostRecv(ib.RecvWR{WRID: 7}); n != 1 {
		t.Fatal(err)
	}
	s.HCA.Single().RingDoorbell(s.QP)
	s.Out()
	if recv.Cons.Load() != recv.Prod.Load() {
		t.Error("a receive that was rung for in ERR is not flushed")
	}
	rig.Must(t, s.QP.Modify(s.Now, &ib.QPAttr{State: ib.RESET}, ib.AttrState))
	if asks() {
		t.Error("in RESET a receive asks for the doorbell")
	}
}
