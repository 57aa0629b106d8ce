package verbs

import "testing"

// TestZeroValues ends objects that no call has created. Each call returns an error.
func TestZeroValues(t *testing.T) {
	for what, end := range map[string]func() error{
		"Context": new(Context).Close, "PD": new(PD).Dealloc, "CQ": new(CQ).Destroy, "QP": new(QP).Destroy, "SRQ": new(SRQ).Destroy,
		"MR": new(MR).Dereg, "MW": new(MW).Dealloc, "AH": new(AH).Destroy, "DM": new(DM).Free,
		"XRCDomain": new(XRCDomain).Close, "RDD": new(RDD).Dealloc, "EEC": new(EEC).Destroy,
	} {
		t.Run(what, func(t *testing.T) {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("the zero value panics: %v", p)
				}
			}()
			if end() == nil {
				t.Error("the zero value ends without an error")
			}
		})
	}
}
