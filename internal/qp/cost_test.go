package qp

import "testing"

// TestPacketCost holds what packets are charged for in a peer's receive
// buffer. The sizes of windows were measured with these numbers.
func TestPacketCost(t *testing.T) {
	for payload, want := range map[uint32]uint32{0: 512, 256: 512, 384: 512, 385: 513, 1024: 1152, 4096: 4224} {
		if cost := packetCost(payload); cost != want {
			t.Errorf("a packet with %d bytes of payload costs %d, want %d", payload, cost, want)
		}
	}
}

// TestChunkIsAQuarterOfTheWindow shows that the responses to one READ request
// take no more than a quarter of what the window can grow to, nor much less,
// and that a request asks for a packet at least.
func TestChunkIsAQuarterOfTheWindow(t *testing.T) {
	_, qps := probeRig(1)
	r := &qps[0].req
	for _, c := range []struct{ window, mtu, want int }{
		{256 << 10, 1024, 56}, {256 << 10, 4096, 15}, {1 << 20, 256, 512}, {8 << 10, 4096, 1},
	} {
		r.ep.env.Settings.WindowBytes, r.ep.mtu = c.window, c.mtu
		if r.sizeChunks(); r.chunk != uint32(c.want) {
			t.Errorf("with a window of %d bytes and a path MTU of %d a READ request asks for %d packets, want %d", c.window, c.mtu, r.chunk, c.want)
		}
	}
}
