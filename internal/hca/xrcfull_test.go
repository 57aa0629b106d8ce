package hca_test

import (
	"errors"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/number"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// TestM4_AllNumbers creates shared receive queues of XRC until all numbers of the adapter's slot are
// taken. A further queue is refused, and leaves nothing behind. A freed number is used again only
// after enough other numbers have been freed.
func TestM4_AllNumbers(t *testing.T) {
	const slot, most = 5, 1<<16 - 2
	v := rig.NewSolo(t, rig.SoloConfig{Type: ib.RC, HCA: hca.Config{QPNSlot: slot}})
	pd, err := v.HCA.AllocPD()
	rig.Must(t, err)
	cq, err := v.HCA.CreateCQ(1, nil)
	rig.Must(t, err)
	d, err := v.HCA.OpenXRCD()
	rig.Must(t, err)
	all := make([]*qp.SRQ, most)
	have := make(map[ib.SRQN]bool)
	for i := range all {
		all[i], err = pd.CreateXRCSRQ(d, cq, 1, 1, 0)
		rig.Must(t, err)
		if n := all[i].Num(); n>>16 != slot || have[n] {
			t.Fatalf("queue %d has the number %v", i, n)
		}
		have[all[i].Num()] = true
	}
	refused := func(when string) {
		t.Helper()
		if s, err := pd.CreateXRCSRQ(d, cq, 1, 1, 0); !errors.Is(err, ib.ErrInsufficientResources) || s != nil {
			t.Fatalf("%s: %v, %v", when, s, err)
		}
	}
	refused("all numbers are taken")
	first := all[0].Num()
	for i, s := range all[:number.Rest+1] {
		if rig.Must(t, pd.DestroySRQ(s)); i < number.Rest {
			continue
		}
		again, err := pd.CreateXRCSRQ(d, cq, 1, 1, 0)
		rig.Must(t, err)
		if all[0] = again; again.Num() != first {
			t.Errorf("the number %v is used again, before %v, which was freed first", again.Num(), first)
		}
		refused("all numbers are taken, or rest")
	}
	for i, s := range all {
		if i == 0 || i > number.Rest {
			rig.Must(t, pd.DestroySRQ(s))
		}
	}
	rig.Must(t, errors.Join(v.HCA.CloseXRCD(d), v.HCA.CQs().Destroy(cq), pd.Dealloc()))
}

// TestM4_NumbersOfOthers sends requests that name a shared receive queue by its number in the slots
// of the other processes on the address: the target refuses them as it refuses an unknown number.
func TestM4_NumbersOfOthers(t *testing.T) {
	v := newXRCVictim(t)
	n := uint32(v.queues[0].Num())
	for slot := range uint32(256) {
		p := v.Packet(roce.XRCSendOnly, v.psn, []byte("x"))
		p.BTH.DestQP, p.XRCETH.SRQN = v.target.Num(), n&0xffff|slot<<16
		own := n>>16 == slot
		sent := v.Inject(p)
		if want := map[bool]ib.QPState{true: ib.RTS, false: ib.ERR}[own]; v.target.State() != want {
			t.Fatalf("slot %d: the target is in %v, want %v", slot, v.target.State(), want)
		}
		if len(sent) != 1 || (sent[0].AETH.Syndrome == roce.NAKInvalidRequest) == own {
			t.Fatalf("slot %d: %v", slot, sent)
		}
		if v.connect(); !own {
			continue
		}
		rig.Must(t, v.queues[0].PostRecv(&ib.RecvWR{SGList: []ib.SGE{v.SGE(0, 512)}}))
	}
}
