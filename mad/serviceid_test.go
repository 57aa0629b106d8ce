package mad

import (
	"testing"

	"pgregory.net/rapid"
)

func TestC11_ServiceID(t *testing.T) {
	for _, c := range []struct {
		id   ServiceID
		ps   PortSpace // 0: not a port
		port uint16
		text string
	}{
		{0x0000000001061d30, PSTCP, 7472, "tcp:7472"},
		{0x0000000001111c06, PSUDP, 7174, "udp:7174"},
		{0x00000000013fffff, PSIB, 65535, "ib:65535"},
		{0x0000000000020001, PSIPoIB, 1, "ipoib:1"},
		{0x0000000001840001, 0x0184, 1, "ps(0x184):1"},
		{0x0000000000000000, 0, 0, "0x0000000000000000"},
		{0x0000000000010000, 0, 0, "0x0000000000010000"},
		{0x0000000002061d30, 0, 0, "0x0000000002061d30"},
		{0x0200000000000001, 0, 0, "0x0200000000000001"},
		{0x0000000101061d30, 0, 0, "0x0000000101061d30"},
		{0x0001000000020001, 0, 0, "0x0001000000020001"},
	} {
		ps, port, ok := c.id.IP()
		if ps != c.ps || port != c.port || ok != (c.ps != 0) {
			t.Errorf("service %#016x is port %v:%d, %v; want %v:%d", uint64(c.id), ps, port, ok, c.ps, c.port)
		}
		if ok && IPServiceID(ps, port) != c.id {
			t.Errorf("port %v:%d is service %#016x, want %#016x", ps, port, uint64(IPServiceID(ps, port)), uint64(c.id))
		}
		if got := c.id.String(); got != c.text {
			t.Errorf("service %#016x prints as %q, want %q", uint64(c.id), got, c.text)
		}
	}
}

func TestC11_ServiceIDOfPort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ps := rapid.SampledFrom([]PortSpace{PSIPoIB, PSTCP, PSUDP, PSIB}).Draw(t, "port space")
		port := rapid.Uint16().Draw(t, "port")
		gotPS, gotPort, ok := IPServiceID(ps, port).IP()
		if gotPS != ps || gotPort != port || !ok {
			t.Fatalf("port %v:%d comes back as %v:%d, %v", ps, port, gotPS, gotPort, ok)
		}
	})
}
