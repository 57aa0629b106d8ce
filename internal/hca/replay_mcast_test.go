package hca_test

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/internal/pcapfile/captures"
	"github.com/softhca/softhca/roce"
)

// TestV14_MulticastOfLinux hands what Linux sent to groups, through rdma_cm and
// through the verbs, to a queue pair of ours that is attached where those of
// Linux were. It must deliver all of it: the payload, and before it the IP
// header that the packet had.
func TestV14_MulticastOfLinux(t *testing.T) {
	for name, group := range map[string]string{
		"cm_mckey": "239.77.0.1", "errs_ud_mcast": "239.77.0.2", "errs6_ud_mcast": "ff0e::77:2",
	} {
		t.Run(name, func(t *testing.T) {
			all := multicastOf(t, strings.Replace(capturesGlob, "*", name, 1))
			if len(all) != 3 {
				t.Fatalf("the capture has %d packets, not 3", len(all))
			}
			to := netip.MustParseAddr(group)
			c := rig.SoloConfig{Addr: netip.MustParseAddr("10.77.0.2"), Peer: all[0].Src, V6: to.Is6()}
			if c.V6 {
				c.Addr = netip.MustParseAddr(serverHost6)
			}
			c.Attr = func(a *ib.QPAttr) { a.QKey = parsed(t, all[0]).DETH.QKey }
			a := newAudience(t, 1, c)
			a.group = to
			a.attach(1)
			for i, p := range all {
				a.replayMcast(uint64(i), p)
			}
		})
	}
}

// multicastOf returns the packets of a capture that are to groups.
func multicastOf(t *testing.T, name string) []*pcapfile.Packet {
	t.Helper()
	var all []*pcapfile.Packet
	captures.Each(t, name, func(_ string, p *pcapfile.Packet) {
		if p.Dst.IsMulticast() {
			own := *p // the reader's is valid until the next
			own.IP, own.Payload = bytes.Clone(p.IP), bytes.Clone(p.Payload)
			all = append(all, &own)
		}
	})
	return all
}

func parsed(t testing.TB, p *pcapfile.Packet) (q roce.Packet) {
	t.Helper()
	if f := q.Parse(p.Payload); f != roce.FaultNone {
		t.Fatal(f)
	}
	return q
}

// replayMcast delivers a packet, once as a port that sees IP headers does and
// once as one that does not.
func (a *audience) replayMcast(id uint64, c *pcapfile.Packet) {
	t := a.T
	t.Helper()
	want := parsed(t, c)
	d := fabric.Datagram{
		Bytes: c.Payload, Src: c.Src, Dst: c.Dst, SrcPort: c.SrcPort, DstPort: fabric.RoCEPort, IDKnown: true,
	}
	if c.Src.Is4() {
		d.TClass, d.ID, d.HopLimit = c.IP[1], binary.BigEndian.Uint16(c.IP[4:]), c.IP[8]
	} else {
		d.TClass, d.HopLimit = uint8(binary.BigEndian.Uint16(c.IP)>>4), c.IP[7]
	}
	for _, seen := range []bool{true, false} {
		d.IDKnown = seen
		a.Recv(id, 40+1024)
		a.Deliver(d)
		got := a.Poll()
		if len(got) != 1 || got[0].WRID != id || got[0].Status != ib.WCSuccess || got[0].SrcQP != want.DETH.SrcQP || got[0].ImmData != want.Imm {
			t.Fatalf("packet %d, header seen %t: completions %+v; counters %+v", id, seen, got, a.Counters())
		}
		area := a.Buf[32<<10:][:got[0].ByteLen]
		if !bytes.Equal(area[40-len(c.IP):40], c.IP) || !bytes.Equal(area[40:], want.Payload) {
			t.Errorf("packet %d, header seen %t: delivered % x, the packet was % x", id, seen, area, c.IP)
		}
	}
}
