package roce

import (
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/internal/pcapfile/captures"
)

// TestLinuxCaptures shows that the codec agrees with Linux about every packet
// of the captures: it parses, is rebuilt to the same bytes, and its ICRC is
// right however it is computed.
func TestLinuxCaptures(t *testing.T) {
	packets, opcodes := 0, map[Opcode]int{}
	captures.Each(t, "../internal/testdata/captures/*.pcap", func(name string, p *pcapfile.Packet) {
		packets++
		opcodes[Opcode(p.Payload[0])]++
		checkWirePacket(t, p.IP, p.UDP, p.Payload)
		if t.Failed() {
			t.Fatalf("%s record %d", name, p.Record)
		}
		var q Packet
		q.Parse(p.Payload)
		mtu := ib.MTU4096.Bytes() // the longest of the files
		if q.Info.Payload == PayloadMTU {
			code, _ := ib.MTUFor(len(q.Payload))
			mtu = code.Bytes()
		}
		if !q.Info.Payload.Allows(len(q.Payload), mtu) {
			t.Errorf("%s record %d: %v with %d bytes breaks its payload rule %v",
				name, p.Record, q.BTH.Opcode, len(q.Payload), q.Info.Payload)
		}
	})
	const wantPackets, wantOpcodes = 5292, 36
	if packets != wantPackets || len(opcodes) != wantOpcodes {
		t.Errorf("the captures have %d packets of %d opcodes, want %d of %d", packets, len(opcodes), wantPackets, wantOpcodes)
	}
}
