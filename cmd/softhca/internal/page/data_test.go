package page

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/explain"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// value returns the number of packet i in a column.
func (c *collector) value(t *testing.T, name string, i int) int64 {
	t.Helper()
	for k := range c.Columns {
		switch col := &c.Columns[k]; {
		case col.Name != name:
		case col.Type == "u8":
			return int64(col.data[i])
		case col.Type == "u16":
			return int64(binary.LittleEndian.Uint16(col.data[2*i:]))
		case col.Type == "u32":
			return int64(binary.LittleEndian.Uint32(col.data[4*i:]))
		default:
			return int64(int32(binary.LittleEndian.Uint32(col.data[4*i:])))
		}
	}
	t.Fatalf("there is no column %s", name)
	return 0
}

// TestColumns has a number of its own in every field of a packet, and reads all of them back.
func TestColumns(t *testing.T) {
	first := explain.Packet{Src: netip.AddrFrom4([4]byte{10, 0, 0, 9}), Dst: netip.AddrFrom4([4]byte{10, 0, 0, 8})}
	p := explain.Packet{
		Record: 70_001, At: -5_000_000_007, Src: netip.AddrFrom4([4]byte{10, 0, 0, 1}), Dst: netip.AddrFrom4([4]byte{10, 0, 0, 8}), SrcPort: 50_003,
		TClass: 4, TTL: 5, ID: 60_006, Length: 1007, Head: make([]byte, 12), Conversation: 80_008, Side: 1, Marks: 0x29, Finding: explain.Rules()[9].Name,
		Comment: "said", Ends: [2]explain.State{
			{Phase: 1, Next: 11_000_001, Una: 11_000_002, Messages: 1003, MSN: -1}, {Phase: 2, Next: 12_000_001, Una: 12_000_002, Messages: 2003, MSN: 2004},
		},
	}
	c := collect(&explain.Report{Kept: []explain.Packet{first, p}})
	for _, want := range []struct {
		name  string
		value int64
	}{
		{"record", 70_001}, {"src", 2}, {"dst", 1}, {"port", 50_003}, {"tclass", 4}, {"ttl", 5}, {"id", 60_006}, {"length", 1007}, {"conversation", 80_008},
		{"side", 1}, {"marks", 0x29}, {"finding", 10}, {"comment", 1}, {"head", 12},
		{"phaseA", 1}, {"nextA", 11_000_001}, {"unaA", 11_000_002}, {"messagesA", 1003}, {"msnA", -1},
		{"phaseB", 2}, {"nextB", 12_000_001}, {"unaB", 12_000_002}, {"messagesB", 2003}, {"msnB", 2004},
	} {
		if got := c.value(t, want.name, 1); got != want.value {
			t.Errorf("column %s has %d, want %d", want.name, got, want.value)
		}
	}
	if at := time.Duration(c.value(t, "timeHigh", 1)<<32 | c.value(t, "timeLow", 1)); at != p.At {
		t.Errorf("the time is %v, want %v", at, p.At)
	}
	if c.Comments[1] != "said" || c.Addrs[2] != p.Src || c.Names[10] != p.Finding {
		t.Errorf("comments %q, addresses %v, rule %s", c.Comments, c.Addrs, c.Names[10])
	}
}

// TestManyManagementDatagrams has more management datagrams than a page decodes: those around
// the cause are decoded, and the page says that others are not.
func TestManyManagementDatagrams(t *testing.T) {
	const many, cause = maxManagement + 1500, 3000
	w := &wire{follower: explain.New(explain.Config{Packets: MaxPackets}), now: time.Unix(1, 0)}
	for i := range many {
		w.packet(0, time.Microsecond, "", &roce.Packet{BTH: roce.BTH{Opcode: roce.UDSendOnly, DestQP: ib.QPNGSI}, Payload: make([]byte, mad.Size)})
		if i == cause {
			refused := &roce.Packet{BTH: roce.BTH{Opcode: roce.RCSendOnly, DestQP: 0x22}}
			w.packet(0, time.Microsecond, "", refused)
			w.packet(1, time.Microsecond, "", &roce.Packet{BTH: roce.BTH{Opcode: roce.RCAcknowledge, DestQP: 0x11}, AETH: roce.AETH{Syndrome: roce.NAKRemoteAccess}})
		}
	}
	r := w.follower.Report()
	c := collect(r)
	first, last := many, 0
	for i := range c.Management {
		first, last = min(first, i), max(last, i)
	}
	if len(c.Management) != maxManagement || len(c.Descriptions) != maxManagement || first > cause-maxManagement/3 || last < cause+maxManagement/3 {
		t.Errorf("%d management datagrams are decoded, want %d; from packet %d to %d, around %d", len(c.Management), maxManagement, first, last, cause)
	}
	var page strings.Builder
	must.Do(t, Write(&page, r, "many"))
	if want := "Of 5000 management datagrams the fields are shown, those around record 3003; of 1500 others only the bytes."; !strings.Contains(page.String(), want) {
		t.Errorf("the page does not say: %s", want)
	}
}
