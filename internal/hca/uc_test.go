package hca

import (
	"bytes"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/roce"
)

// TestE14_E15_UC shows what an unreliable receiver does with messages that lost a
// packet, come without a receive, or break a rule: the message goes, its
// receive serves the next, nothing is answered and nobody fails.
func TestE14_E15_UC(t *testing.T) {
	mtu := bytes.Repeat([]byte{7}, 256)
	const first, middle, last, only = roce.UCSendFirst, roce.UCSendMiddle, roce.UCSendLast, roce.UCSendOnly
	type pk struct {
		op  roce.Opcode
		psn uint32
		n   int
	}
	for _, c := range []struct {
		what  string
		in    []pk
		bytes []uint32 // of the receives that complete
	}{
		{"a whole message", []pk{{first, 0x100, 256}, {middle, 0x101, 256}, {last, 0x102, 9}}, []uint32{521}},
		{"FIRST lost", []pk{{middle, 0x101, 256}, {last, 0x102, 9}, {only, 0x103, 5}}, []uint32{5}},
		{"MIDDLE lost", []pk{{first, 0x100, 256}, {last, 0x102, 9}, {only, 0x103, 5}}, []uint32{5}},
		{"LAST lost", []pk{{first, 0x100, 256}, {only, 0x102, 5}}, []uint32{5}},
		{"FIRST, ONLY without a gap", []pk{{first, 0x100, 256}, {only, 0x101, 5}}, []uint32{5}},
		{"a jump ahead", []pk{{only, 0x500, 5}, {only, 0x501, 6}}, []uint32{5, 6}},
		{"a jump back", []pk{{only, 0x010, 5}}, []uint32{5}},
		{"LAST of nothing", []pk{{first, 0x100, 256}, {last, 0x101, 0}, {only, 0x102, 5}}, []uint32{5}},
		{"FIRST not of the MTU", []pk{{first, 0x100, 255}, {last, 0x101, 9}, {only, 0x102, 5}}, []uint32{5}},
		{"longer than the receive", []pk{{first, 0x100, 256}, {middle, 0x101, 256}, {middle, 0x102, 256}, {last, 0x103, 5}, {only, 0x104, 5}}, []uint32{5}},
		{"WRITE MIDDLE in a SEND", []pk{{first, 0x100, 256}, {roce.UCRDMAWriteMiddle, 0x101, 256}, {last, 0x102, 1}, {only, 0x103, 5}}, []uint32{5}},
	} {
		s := newSolo(t, soloConfig{typ: ib.UC})
		s.recv(1, 600, 600)
		for _, p := range c.in {
			if got := s.inject(s.packet(p.op, p.psn, mtu[:min(p.n, 256)])); len(got) != 0 {
				t.Errorf("%s: UC answers", c.what)
			}
		}
		for i, wc := range s.poll() {
			if i >= len(c.bytes) || wc.Status != ib.WCSuccess || wc.ByteLen != c.bytes[i] || wc.WRID != uint64(i+1) {
				t.Errorf("%s: completion %d is %+v, want %v bytes", c.what, i, wc, c.bytes)
			}
			c.bytes[i] = 0
		}
		for i, n := range c.bytes {
			if n != 0 {
				t.Errorf("%s: message %d of %d bytes is not delivered", c.what, i, n)
			}
		}
		s.wantState(c.what, ib.RTS)
	}
}

// TestE14_UCWrite shows that a WRITE that UC may not do leaves memory alone
// and is counted.
func TestE14_UCWrite(t *testing.T) {
	for what, c := range map[string]struct {
		access ib.Access
		change func(*roce.Packet)
	}{
		"right":              {ib.AccessRemote, nil},
		"wrong rkey":         {ib.AccessRemote, func(p *roce.Packet) { p.RETH.RKey++ }},
		"beyond the end":     {ib.AccessRemote, func(p *roce.Packet) { p.RETH.VA += soloBytes - 3 }},
		"QP does not allow":  {ib.AccessRemoteRead, nil},
		"length of the RETH": {ib.AccessRemote, func(p *roce.Packet) { p.RETH.Length++ }},
	} {
		s := newSolo(t, soloConfig{typ: ib.UC, attr: func(a *ib.QPAttr) { a.AccessFlags = c.access }})
		p := s.packet(roce.UCRDMAWriteOnly, 0x100, []byte{1, 2, 3, 4})
		if c.change != nil {
			c.change(&p)
		}
		s.wantSilence(what, s.inject(p), ib.RTS)
		if written := s.buf[0] == 1; written != (what == "right") {
			t.Errorf("%s: written %v", what, written)
		}
		if d := s.counters().Drops; (d[counters.DropAccess]+d[counters.DropLength] == 1) == (what == "right") {
			t.Errorf("%s: dropped for access %d, for length %d", what, d[counters.DropAccess], d[counters.DropLength])
		}
	}
}

// TestE16_UC shows that a receive with a bad lkey ends the queue pair.
func TestE16_UC(t *testing.T) {
	s := newSolo(t, soloConfig{typ: ib.UC})
	_, err := s.qp.PostRecv(ib.RecvWR{WRID: 1, SGList: []ib.SGE{{Addr: 1, Length: 100, LKey: 1}}})
	must(t, err)
	s.recv(2, 9)
	s.wantPackets("a bad lkey", s.inject(s.packet(roce.UCSendOnly, 0x100, []byte{1})))
	s.wantWCs("a bad lkey", wc{1, ib.WCLocProtErr}, wc{2, ib.WCWRFlushErr})
	s.wantEvents("a bad lkey", ib.EventQPFatal)
	s.wantState("a bad lkey", ib.ERR)
}

// TestQ8_UCTransfers moves messages of every operation between two adapters.
func TestQ8_UCTransfers(t *testing.T) {
	r := newRig(t, ib.UC, rigCap).connect(ib.MTU1024)
	a, b := r.side[0], r.side[1]
	for _, n := range []int{0, 1, 1024, 1025, 100_000} {
		fill(a.buf[:n], uint64(n))
		clear(b.buf)
		for i := range 3 {
			r.recv(1, ib.RecvWR{WRID: uint64(i), SGList: []ib.SGE{b.sge(1<<20, n)}})
		}
		wrs := transfers(r, n)[:4] // no READ
		for _, wr := range wrs {
			r.post(0, wr)
		}
		var sent, got int
		r.run(1e9, func() bool { sent += len(r.poll(0)); got += len(r.poll(1)); return sent == 4 && got == 3 })
		if sent != 4 || got != 3 || !bytes.Equal(b.buf[:n], a.buf[:n]) || !bytes.Equal(b.buf[1<<20:1<<20+n], a.buf[:n]) {
			t.Errorf("%d bytes: %d sent, %d received, or other bytes", n, sent, got)
		}
	}
}
