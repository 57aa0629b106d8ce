package runs

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric/ipudp"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/roce"
)

// run returns packets of the sizes as an offloading sender leaves them: one packet
// with all of them. Their identifications go up by step.
func run(t *testing.T, v6 bool, step int, sizes ...int) (whole *pcapfile.Packet, parts [][]byte) {
	t.Helper()
	h := ipudp.Header{Src: netip.MustParseAddr("10.77.0.3"), Dst: netip.MustParseAddr("10.77.0.2"), SrcPort: 0xc123, DstPort: roce.Port, ID: 0xfffe}
	if v6 {
		h.Src, h.Dst = netip.MustParseAddr("fd00::3"), netip.MustParseAddr("fd00::2")
	}
	var all []byte
	var head [ipudp.MaxLen]byte
	for i, size := range sizes {
		p := &roce.Packet{BTH: roce.BTH{Opcode: roce.RCSendMiddle, PKey: ib.PKeyDefault, DestQP: 0x1234, PSN: ib.NewPSN(uint32(7 + i))}, Payload: bytes.Repeat([]byte{byte(i)}, size)}
		b := make([]byte, roce.Size(p.BTH.Opcode, size))
		p.Build(b)
		one := h
		one.ID += uint16(i * step)
		n := one.Put(head[:], len(b))
		sum, ok := roce.HeaderICRC(head[:n-ipudp.UDPLen], head[n-ipudp.UDPLen:n], b)
		if !ok {
			t.Fatal("no ICRC")
		}
		binary.LittleEndian.PutUint32(b[len(b)-roce.ICRCLen:], sum)
		all, parts = append(all, b...), append(parts, b)
	}
	n := h.Put(head[:], len(all))
	ip := bytes.Clone(head[:n-ipudp.UDPLen])
	return &pcapfile.Packet{Record: 9, Src: h.Src, Dst: h.Dst, SrcPort: h.SrcPort, DstPort: h.DstPort, IP: ip, UDP: bytes.Clone(head[n-ipudp.UDPLen : n]), Payload: all}, parts
}

// TestSplit takes runs of packets apart, whatever their identifications are, and
// nothing else.
func TestSplit(t *testing.T) {
	for _, c := range []struct {
		name  string
		v6    bool
		step  int
		sizes []int
	}{
		{"two of equal size", false, 1, []int{1024, 1024}},
		{"a shorter last one", false, 1, []int{4096, 4096, 4096, 100}},
		{"one identification for all", false, 0, []int{64, 64, 64}},
		{"IPv6", true, 1, []int{256, 256, 4}},
		{"empty ones", false, 1, []int{0, 0, 0, 0}},
	} {
		whole, parts := run(t, c.v6, c.step, c.sizes...)
		before := bytes.Clone(whole.IP)
		n := 0
		ok := Split(whole, func(p *pcapfile.Packet) {
			if n >= len(parts) || !bytes.Equal(p.Payload, parts[n]) || !right(p) || p.Record != 9 {
				t.Errorf("%s: packet %d has %d bytes, right is %v", c.name, n, len(p.Payload), right(p))
			}
			n++
		})
		if !ok || n != len(parts) || !bytes.Equal(before, whole.IP) {
			t.Errorf("%s: %v, %d packets, want %d", c.name, ok, n, len(parts))
		}
	}
	alone, _ := run(t, false, 1, 1024)
	damaged, _ := run(t, false, 1, 1024, 1024)
	damaged.Payload[40]++
	cut, _ := run(t, false, 1, 1024, 1024)
	cut.Truncated = true
	for name, p := range map[string]*pcapfile.Packet{
		"one packet": alone, "the first is damaged": damaged, "cut off": cut, "nothing": {IP: alone.IP, UDP: alone.UDP}, "a byte": {IP: alone.IP, UDP: alone.UDP, Payload: []byte{1}},
	} {
		if Split(p, func(*pcapfile.Packet) { t.Errorf("%s was split", name) }) {
			t.Errorf("%s: was several", name)
		}
	}
}

// TestSplitOneDamaged has a packet in the middle of a run damaged: the others are right.
func TestSplitOneDamaged(t *testing.T) {
	whole, parts := run(t, false, 1, 64, 64, 64)
	whole.Payload[len(parts[0])+20]++
	var sound []bool
	Split(whole, func(p *pcapfile.Packet) { sound = append(sound, right(p)) })
	if len(sound) != 3 || !sound[0] || sound[1] || !sound[2] {
		t.Errorf("right are %v", sound)
	}
}
