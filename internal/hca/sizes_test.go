package hca_test

import (
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/nasty"
	"github.com/softhca/softhca/internal/ring"
)

// TestK2_Sizes creates queues until both sizes have come: that which the program asked for, and
// twice as many. None is above the adapter's limits, and memory of the program's own allocator has
// the size that the program asked for.
func TestK2_Sizes(t *testing.T) {
	most := hca.DefaultLimits().MaxQPWR
	for seed := range uint64(20) {
		s := rig.Config{HCA: hca.Config{Nasty: nasty.Config{Seed: seed + 1}.New(0)}, Type: ib.RC, Cap: rig.Cap, Bytes: 4096}.NewSide(t, 1)
		var cqe, wrs, srq [3]int // by their multiple of what was asked for
		for range 32 {
			cq, err := s.HCA.CreateCQ(15, nil)
			rig.Must(t, err)
			cqe[(cq.Cap()+1)/16]++
			q, err := s.HCA.CreateQP(s.PD, hca.QPConfig{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: ib.QPCap{MaxSendWR: 16, MaxRecvWR: most, MaxSendSGE: 1, MaxRecvSGE: 1}})
			rig.Must(t, err)
			wrs[q.Cap().MaxSendWR/16]++
			if c := q.Cap(); c.MaxRecvWR != most || c.MaxInlineData != 0 {
				t.Errorf("seed %d: %d receives and %d bytes of inline data, want %d, the limit, and none", seed+1, c.MaxRecvWR, c.MaxInlineData, most)
			}
			r, err := s.PD.CreateSRQ(16, 1, 0)
			rig.Must(t, err)
			wr, _ := r.Cap()
			srq[wr/16]++

			own := ring.Allocator{Alloc: func(n int) []byte { return make([]byte, n) }, Free: func([]byte) {}}
			q, err = s.HCA.CreateQP(s.PD, hca.QPConfig{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: ib.QPCap{MaxSendWR: 16, MaxRecvWR: 16}, Queues: own})
			rig.Must(t, err)
			if c := q.Cap(); c.MaxSendWR != 16 || c.MaxRecvWR != 16 {
				t.Errorf("seed %d: queues of %d and %d in memory for 16", seed+1, c.MaxSendWR, c.MaxRecvWR)
			}
		}
		for what, n := range map[string][3]int{"completion queues": cqe, "send queues": wrs, "shared receive queues": srq} {
			if n[1] == 0 || n[2] == 0 || n[1]+n[2] != 32 {
				t.Errorf("seed %d: of 32 %s %d have the size that was asked for, and %d twice", seed+1, what, n[1], n[2])
			}
		}
	}
}
