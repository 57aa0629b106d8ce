package hca_test

import (
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/roce"
)

// TestM1_M2_WindowsHoldTheirDomain shows that a protection domain cannot be deallocated while
// it has windows, and that other adapters cannot deallocate its windows.
func TestM1_M2_WindowsHoldTheirDomain(t *testing.T) {
	limits := hca.DefaultLimits()
	limits.MaxMW = 2
	s, o := rig.NewSolo(t, rig.SoloConfig{HCA: hca.Config{Limits: limits}}), rig.NewSolo(t, rig.SoloConfig{})
	pd, err := s.HCA.AllocPD()
	must.Do(t, err)
	var ws []*memory.Window
	for _, typ := range []ib.MWType{ib.MWType1, ib.MWType2} {
		w, err := pd.AllocMW(typ)
		must.Do(t, err)
		ws = append(ws, w)
	}
	_, err = pd.AllocMW(ib.MWType1)
	must.Fail(t, err, ib.ENOMEM, "a third of two windows")
	if n := s.HCA.Resources().MWs; n != 2 {
		t.Errorf("%d windows, want 2", n)
	}
	must.Fail(t, pd.Dealloc(), ib.EBUSY, "deallocate a domain with windows")
	must.Fail(t, o.PD.DeallocMW(ws[0]), ib.EINVAL, "deallocate a window of another adapter")
	for _, w := range ws {
		must.Do(t, pd.DeallocMW(w))
	}
	must.Fail(t, pd.DeallocMW(ws[0]), ib.EINVAL, "deallocate a window twice")
	must.Do(t, pd.Dealloc())
	_, err = pd.AllocMW(ib.MWType1)
	must.Fail(t, err, ib.EINVAL, "a window of a domain that is gone")
}

// TestM2_BindsHaveNoMessageNumber shows that a bind does not count as a message: once the peer's
// message sequence numbers have fitted often enough to be checked, those after the bind still fit.
func TestM2_BindsHaveNoMessageNumber(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{Challenge: true, MRAccess: ib.AccessLocalWrite | ib.AccessMWBind})
	w, err := s.PD.AllocMW(ib.MWType2)
	must.Do(t, err)
	const often = 300
	for i := range uint32(often + 2) {
		s.Send(s.WR(ib.WRSend, uint64(i), 0, 8))
		ack := s.AckTo(rig.PSN+i, roce.ACKUnlimited)
		ack.AETH.MSN = ib.MSN(i + 1)
		s.Inject(ack)
		s.WantWCs("a SEND", rig.WC(uint64(i), ib.WCSuccess))
		if i == often {
			s.Send(ib.SendWR{WRID: often, Opcode: ib.WRBindMW, Bind: &ib.MWBind{
				RKey: w.RKey(), NewRKey: w.RKey().Inc(), LKey: s.MR.LKey(), Addr: s.MR.Addr(), Length: 8,
			}})
			s.WantWCs("the bind", rig.WC(often, ib.WCSuccess))
		}
	}
}
