package qp

import (
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// TestV17_PortRate shows that a rate which the port does not exceed paces
// nothing.
func TestV17_PortRate(t *testing.T) {
	env := Env{Limits: ModifyLimits{PortMbps: 40_000}}
	for name, want := range map[string]uint64{"2.5": 25e8, "30": 3e10, "40": 0, "100": 0, "max": 0} {
		r, err := ib.ParseRate(name)
		must.Do(t, err)
		if p := env.staticPacer(r); p.Rate() != want {
			t.Errorf("%s Gb/s on a port of 40 paces at %d b/s, want %d", name, p.Rate(), want)
		}
	}
}

// TestV15_NewPathIsUnknown shows that a migration clears the peer's known ports
// of the old path: otherwise out-of-order packets on the new path would not be
// buffered.
func TestV15_NewPathIsUnknown(t *testing.T) {
	q := new(QP)
	q.init(&Env{Ports: []*Port{{}}}, 2, ib.RC, q)
	q.resp.port, q.comp.port = 49152, 49153
	q.resp.dropHeld()
	q.comp.clear()
	if q.resp.port != 0 || q.comp.port != 0 {
		t.Errorf("after a migration requests are kept of port %d only, and answers of port %d", q.resp.port, q.comp.port)
	}
}
