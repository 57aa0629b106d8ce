package mad

import (
	"encoding/binary"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/golden"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/internal/pcapfile/captures"
)

// captured is a datagram of the Linux captures and where it is from.
type captured struct {
	file string
	*pcapfile.Packet
	mad MAD
}

// eachCaptured calls f with every datagram to QP1 in the Linux captures.
func eachCaptured(t testing.TB, f func(c *captured)) {
	t.Helper()
	captures.Each(t, "../internal/testdata/captures/*.pcap", func(name string, p *pcapfile.Packet) {
		if binary.BigEndian.Uint32(p.Payload[4:])&uint32(ib.QPNMask) != uint32(ib.QPNGSI) {
			return
		}
		const sendOnly, headers, icrc = 0x64, 12 + 8, 4
		if len(p.Payload) != headers+Size+icrc || p.Payload[0] != sendOnly {
			t.Fatalf("%s record %d to QP1 is no management datagram: % x", name, p.Record, p.Payload)
		}
		f(&captured{name, p, MAD(p.Payload[headers:])})
	})
}

// TestC2_LinuxMessages shows that every CM message of Linux is decoded
// completely: encoded again it is the same 256 bytes. The golden file describes
// each of them.
func TestC2_LinuxMessages(t *testing.T) {
	var listing strings.Builder
	counts := map[string]int{}
	eachCaptured(t, func(c *captured) {
		h := c.mad.Header()
		var again MAD
		again.PutHeader(h)
		for i := range kinds {
			if k := &kinds[i]; k.attr == h.AttrID && h.IsCM() {
				k.decoded(&c.mad).Put(&again)
				counts[k.name]++
			}
		}
		if again != c.mad {
			t.Errorf("%s record %d is encoded as\n% x, want\n% x", c.file, c.Record, again, c.mad)
		}
		fmt.Fprintf(&listing, "%s %d %v %s\n", strings.TrimSuffix(c.file, ".pcap"), c.Record, c.Src, Describe(&c.mad))
	})
	golden.Check(t, "testdata/captures.golden", listing.String())
	want := map[string]int{
		"REQ": 40, "MRA": 1, "REJ": 9, "REP": 32, "RTU": 29, "DREQ": 30, "DREP": 28, "SIDR_REQ": 6, "SIDR_REP": 5,
	}
	if !maps.Equal(counts, want) {
		t.Errorf("the captures hold %v, want %v", counts, want)
	}
}
