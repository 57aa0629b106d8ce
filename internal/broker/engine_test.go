package broker

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/pipe"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// feed is a port that receives the datagrams of a test.
type feed struct {
	fabric.Port
	next *fabric.Datagram
}

func (f *feed) Receive(ds []fabric.Datagram) (int, error) {
	if f.next == nil {
		return 0, nil
	}
	ds[0], f.next = *f.next, nil
	return 1, nil
}

// TestEngineVerifies has a REQ for a member arrive at a port that sees the IP header. Like an
// adapter, the engine accepts it only with the identification and the don't-fragment flag that
// its ICRC covers.
func TestEngineVerifies(t *testing.T) {
	const sealedID, sid = 7, mad.ServiceID(0x1061234)
	ours, theirs := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	end, err := pipe.NewNetwork(pipe.Options{}).Port(ours)
	must.Do(t, err)
	port := &feed{Port: end}
	connTable, err := os.Create(filepath.Join(t.TempDir(), "connTable"))
	must.Do(t, err)
	t.Cleanup(func() { _ = connTable.Close() })
	forwarded := 0
	e, err := newEngine(port, 42, connTable, func(uint8, []byte) { forwarded++ })
	must.Do(t, err)
	t.Cleanup(e.close)
	must.Do(t, e.do(func(clock.Instant) { e.router.join(0) }))
	if no := e.claim(0, sid); no != 0 {
		t.Fatal(no)
	}
	for i, c := range []struct {
		sealedNoDF bool
		id         uint16
		noDF       bool
		want       int
	}{
		{id: sealedID, want: 1},
		{id: sealedID + 1},
		{id: sealedID, noDF: true},
		{id: sealedID, sealedNoDF: true},
		{id: sealedID, sealedNoDF: true, noDF: true, want: 1},
	} {
		var m mad.MAD
		m.PutHeader(mad.CMHeader(mad.AttrREQ, uint64(i+1)))
		(&mad.REQ{LocalCommID: uint32(i + 1), ServiceID: sid, LocalQPN: 0x123, LocalCAGUID: 9}).Put(&m)
		var h roce.Packet
		h.BTH = roce.BTH{Opcode: roce.UDSendOnly, PKey: 0xffff, DestQP: ib.QPNGSI}
		h.DETH = roce.DETH{QKey: 0x80010000, SrcQP: ib.QPNGSI}
		seg := make([]byte, roce.Size(h.BTH.Opcode, len(m)))
		copy(seg[h.PutHeaders(seg):], m[:])
		pre := roce.NewPrefix(theirs, ours, fabric.RoCEPort, fabric.RoCEPort, len(seg)).WithID(sealedID)
		if c.sealedNoDF {
			pre = pre.WithoutDF()
		}
		roce.Seal(seg, pre)
		forwarded = 0
		port.next = &fabric.Datagram{
			Bytes: seg, Src: theirs, Dst: ours, SrcPort: fabric.RoCEPort, DstPort: fabric.RoCEPort,
			ID: c.id, IDKnown: true, NoDF: c.noDF, HopLimit: 64,
		}
		e.drv.Progress()
		if forwarded != c.want {
			t.Errorf("case %d (%+v): %d packets are forwarded", i, c, forwarded)
		}
	}
}
