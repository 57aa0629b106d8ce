package verbs_test

import (
	"errors"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// TestResources creates one object of each kind, destroys them and checks the counts.
func TestResources(t *testing.T) {
	dev, err := verbs.Open(verbs.Config{Addr: "10.0.0.1", Network: verbs.NewNetwork()})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	expect := func(when string, want verbs.Resources) {
		t.Helper()
		if got, err := dev.Resources(); err != nil || got != want {
			t.Fatalf("%s: %+v, %v, want %+v", when, got, err, want)
		}
	}
	expect("at first", verbs.Resources{})
	pd, err1 := dev.AllocPD()
	cq, err2 := dev.CreateCQ(1, nil)
	srq, err3 := pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 1})
	mr, err4 := pd.RegMR(make([]byte, 1), 0)
	qp, err5 := pd.CreateQP(&verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, SRQ: srq})
	mw, err6 := pd.AllocMW(ib.MWType1)
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		t.Fatal(err)
	}
	expect("with one of each", verbs.Resources{PDs: 1, CQs: 1, SRQs: 1, QPs: 1, MRs: 1, MWs: 1})
	if err := errors.Join(qp.Destroy(), mw.Dealloc(), mr.Dereg(), srq.Destroy(), cq.Destroy(), pd.Dealloc()); err != nil {
		t.Fatal(err)
	}
	expect("at last", verbs.Resources{})
}
