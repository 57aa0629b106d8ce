package verbs

import (
	"bytes"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric/sandbox"
	"github.com/softhca/softhca/internal/must"
)

// TestV18_InterfaceMTU sends the longest packets of every service over interfaces whose
// MTU just fits them, and over interfaces with one byte less: the port's path MTU always
// lets packets fit.
func TestV18_InterfaceMTU(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	lo, err := netlink.LinkByName("lo")
	must.Do(t, err)
	const longest = 28 + 12 + 4 + 8 + 16 + 4 + 1024 + 4 // IPv4 and UDP; BTH, RDETH, DETH, RETH, ImmDt, payload, ICRC
	for mtu, want := range map[int]ib.MTU{longest: ib.MTU1024, longest - 1: ib.MTU512} {
		must.Do(t, netlink.LinkSetMTU(lo, mtu))
		a, b := newChannelEnd(t, Config{Addr: "127.0.0.1", Wire: WireUDP}), newChannelEnd(t, Config{Addr: "127.0.0.2", Wire: WireUDP})
		port, err := a.ctx.QueryPort()
		must.Do(t, err)
		if port.ActiveMTU != want {
			t.Errorf("with an interface of MTU %d the path MTU is %d, want %d", mtu, port.ActiveMTU.Bytes(), want.Bytes())
		}
		full := func(attr *QPAttr) { attr.PathMTU, attr.RetryCnt = port.ActiveMTU, 1 }
		join(t, a, b, full)
		ra, rb := a.sibling(t, ib.RC), b.sibling(t, ib.RC)
		connect(t, ra, rb, full)
		for i := range a.mr.Bytes() {
			a.mr.Bytes()[i] = byte(i * 7)
		}
		a.settle(t)
		n := uint32(port.ActiveMTU.Bytes())
		must.Do(t, b.qp.PostRecv(RecvWR{WRID: 1}))
		must.Do(t, rb.qp.PostRecv(RecvWR{WRID: 1}))
		must.Do(t, a.qp.PostSend(a.to(b.qp, a.writeImm(1, n, b.endpoint))))
		must.Do(t, ra.qp.PostSend(ra.writeImm(1, n, rb)))
		for _, e := range []*endpoint{a.endpoint, b.endpoint, ra, rb} {
			e.wait(t, 1)
		}
		if !bytes.Equal(a.mr.Bytes()[:n], b.mr.Bytes()[:n]) {
			t.Errorf("with an interface of MTU %d the data is not what was written", mtu)
		}
		must.Do(t, a.ctx.Close())
		must.Do(t, b.ctx.Close())
	}
}

// writeImm is write with immediate data.
func (e *endpoint) writeImm(id uint64, n uint32, peer *endpoint) SendWR {
	wr := e.write(id, n, peer)
	wr.Opcode = ib.WRRDMAWriteWithImm
	return wr
}
