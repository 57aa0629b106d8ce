package fault

import (
	"bytes"
	"testing"

	"github.com/softhca/softhca/internal/fabric"
)

// TestReceivedPacketsAreNotChanged damages a packet that has arrived. The bytes of the wrapped port,
// which may be read-only, stay the same.
func TestReceivedPacketsAreNotChanged(t *testing.T) {
	for _, rule := range []string{"corrupt byte=20 dir=in", "corrupt byte=20 reseal dir=in", "truncate 40 reseal dir=in"} {
		x := newBench(t, rule, false)
		x.fill(x.dst, x.src, 1)
		whole := x.batch.Pending()[0].Bytes
		arrived := bytes.Clone(whole)
		x.port.take(x.now, &fabric.Datagram{Bytes: arrived, Src: x.dst, Dst: x.src, SrcPort: 0xc000, DstPort: fabric.RoCEPort, IDKnown: true})
		if !bytes.Equal(arrived, whole) {
			t.Errorf("%s: the arrived packet is changed", rule)
		}
		if ds := x.port.ready; len(ds) != 1 || bytes.Equal(ds[0].Bytes, whole) {
			t.Errorf("%s: the packet is passed on as %+v", rule, ds)
		}
	}
}
