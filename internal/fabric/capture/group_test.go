package capture_test

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/must"
)

// A packet to a group is recorded at both ends, with the Ethernet address that
// the group has on a network.
func TestGroupsAreRecorded(t *testing.T) {
	for _, c := range []struct {
		a, b, group string
		mac         []byte
	}{
		{"10.0.0.1", "10.0.0.2", "239.205.0.1", []byte{0x01, 0x00, 0x5E, 0x4D, 0x00, 0x01}},
		{"fd00::1", "fd00::2", "ff0e::77:2", []byte{0x33, 0x33, 0x00, 0x77, 0x00, 0x02}},
	} {
		a, b := network(t, c.a, c.b)
		var files [2]bytes.Buffer
		from, to := wrap(t, a, &files[0]), wrap(t, b, &files[1])
		p := fabric.Path{Src: netip.MustParseAddr(c.a), Dst: netip.MustParseAddr(c.group), SrcPort: 0xC123, HopLimit: 64}
		must.Do(t, to.Join(p.Dst))
		batch := fabric.NewBatch(1<<12, from.Caps())
		segs := put(t, batch, p, 1)
		must.Do(t, from.Send(batch))
		if n, err := to.Receive(make([]fabric.Datagram, 4)); n != 1 || err != nil {
			t.Fatalf("%d datagrams arrived: %v", n, err)
		}
		for i, port := range []fabric.Port{from, to} {
			must.Do(t, port.Close())
			rs := read(t, files[i].Bytes())
			if len(rs) != 1 {
				t.Fatalf("%d packets are recorded, not 1", len(rs))
			}
			verify(t, rs[0], p, segs[0])
			if !bytes.Equal(rs[0].frame[:6], c.mac) {
				t.Errorf("%s is recorded with Ethernet address % x", c.group, rs[0].frame[:6])
			}
		}
	}
}
