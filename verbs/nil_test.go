package verbs

import (
	"testing"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/rules"
)

// TestNilReceivers calls every method on nil, like a program that continues after an
// error: none panics, and every method that can fail does.
func TestNilReceivers(t *testing.T) {
	wrong, err := rules.NilReceivers(".", []string{"Context.CaptureErr", "PostError.Unwrap"},
		(*AH)(nil), (*CQ)(nil), (*CompChannel)(nil), (*Context)(nil), (*DM)(nil), (*EEC)(nil), (*Endpoint)(nil), (*Finding)(nil), (*MR)(nil), (*MW)(nil),
		(*PD)(nil), (*PostError)(nil), (*QP)(nil), (*RDD)(nil), (*SRQ)(nil), (*TraceRecord)(nil), (*XRCDomain)(nil))
	must.Do(t, err)
	for _, w := range wrong {
		t.Error(w)
	}
}
