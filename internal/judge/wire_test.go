package judge

import (
	"net/netip"
	"testing"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/roce"
)

// TestArrivalsAreBounded has more packets arrive than a step may have: the others
// are counted, and the next step has room again.
func TestArrivalsAreBounded(t *testing.T) {
	w := &wire{local: netip.MustParseAddr("10.0.0.1"), peer: netip.MustParseAddr("10.0.0.2")}
	p := roce.Packet{BTH: roce.BTH{Opcode: roce.RCAcknowledge}}
	b := make([]byte, roce.Size(p.BTH.Opcode, 0))
	p.Build(b)
	d := fabric.Datagram{Bytes: b, Src: w.peer, Dst: w.local, SrcPort: injectPort, DstPort: fabric.RoCEPort, IDKnown: true}
	roce.Seal(b, roce.NewPrefix(d.Src, d.Dst, d.SrcPort, d.DstPort, len(b)).WithID(0))
	for step := range 2 {
		for range maxArrivals + 3 {
			w.take(&d)
		}
		if len(w.arrived) != maxArrivals || w.lost != 3 || w.damaged != 0 {
			t.Errorf("step %d: %d packets have arrived, %d beyond the bound, %d damaged; want %d, 3 and 0", step, len(w.arrived), w.lost, w.damaged, maxArrivals)
		}
		w.arrived, w.lost = w.arrived[:0], 0
	}
}
