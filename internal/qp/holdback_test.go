package qp_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/nasty"
	"github.com/softhca/softhca/roce"
)

// messageOps are the first, middle and last packet of a message in several packets.
type messageOps [3]roce.Opcode

// placed is an adapter that receives messages of four packets, and how much of the current one the
// program saw in each pause.
type placed struct {
	*rig.Solo
	psn     uint32 // of the next packet
	ops     messageOps
	payload []byte
	early   int // pauses in which the last byte was there and an earlier packet was not
}

func newPlaced(t *testing.T, typ ib.QPType, ops messageOps, seed uint64) *placed {
	t.Helper()
	p := &placed{ops: ops, psn: rig.PeerPSN}
	p.Solo = rig.NewSolo(t, rig.SoloConfig{Type: typ, HCA: hca.Config{
		Nasty: nasty.Config{Seed: seed}.New(0),
		Pause: func(time.Duration) { p.look() },
	}})
	return p
}

// look counts what a program sees that waits for the last byte of the message.
func (p *placed) look() {
	n := len(p.payload)
	if n == 0 || p.Buf[n-1] != p.payload[n-1] {
		return
	}
	for off := 0; off < n-256; off += 256 {
		if !bytes.Equal(p.Buf[off:off+256], p.payload[off:off+256]) {
			p.early++
			return
		}
	}
}

// packet delivers the next packet: the k-th of a message.
func (p *placed) packet(k int) {
	op := p.ops[min(k, 1)]
	if k == 3 {
		op = p.ops[2]
	}
	part := p.payload[256*k : 256*(k+1)]
	pkt := p.Packet(op, p.psn, part)
	if op.Info().Headers&roce.HasRETH != 0 {
		pkt = p.Write(op, p.psn, part, len(p.payload))
	}
	p.Inject(pkt)
	p.psn++
}

// TestK2_LastPacketFirst receives messages of four packets, of which the payload of the last is in
// memory, sometimes, before that of an earlier one. All is there when the message completes.
func TestK2_LastPacketFirst(t *testing.T) {
	for name, c := range map[string]struct {
		typ ib.QPType
		ops messageOps
	}{
		"RC SEND":  {ib.RC, messageOps{roce.RCSendFirst, roce.RCSendMiddle, roce.RCSendLast}},
		"RC WRITE": {ib.RC, messageOps{roce.RCRDMAWriteFirst, roce.RCRDMAWriteMiddle, roce.RCRDMAWriteLast}},
		"UC SEND":  {ib.UC, messageOps{roce.UCSendFirst, roce.UCSendMiddle, roce.UCSendLast}},
		"UC WRITE": {ib.UC, messageOps{roce.UCRDMAWriteFirst, roce.UCRDMAWriteMiddle, roce.UCRDMAWriteLast}},
	} {
		early := 0
		for seed := range uint64(20) {
			p := newPlaced(t, c.typ, c.ops, seed+1)
			for i := range 20 {
				p.payload = bytes.Repeat([]byte{byte(i + 1)}, 1024)
				if p.ops[0].Info().Headers&roce.HasRETH == 0 {
					_, err := p.QP.PostRecv(ib.RecvWR{SGList: []ib.SGE{p.SGE(0, 1024)}})
					rig.Must(t, err)
				}
				for k := range 4 {
					p.packet(k)
				}
				if !bytes.Equal(p.Buf[:1024], p.payload) {
					t.Fatalf("%s, seed %d: message %d is not in memory when it is complete", name, seed+1, i)
				}
			}
			early += p.early
		}
		if early < 100 {
			t.Errorf("%s: the last packet came first for %d of 400 messages, want at least 100", name, early)
		}
	}
}

// TestK2_LostEnd loses the ends of UC messages: what was kept back of a message without an end is
// not written into the next message.
func TestK2_LostEnd(t *testing.T) {
	for seed := range uint64(20) {
		p := newPlaced(t, ib.UC, messageOps{roce.UCRDMAWriteFirst, roce.UCRDMAWriteMiddle, roce.UCRDMAWriteLast}, seed+1)
		for i := range 20 {
			p.payload = bytes.Repeat([]byte{0xee}, 1024)
			p.packet(0)
			p.packet(1)
			p.psn++ // the others are lost
			p.payload = bytes.Repeat([]byte{byte(i + 1)}, 1024)
			for k := range 4 {
				p.packet(k)
			}
			if !bytes.Equal(p.Buf[:1024], p.payload) {
				t.Fatalf("seed %d: message %d has bytes of the one before", seed+1, i)
			}
		}
	}
}
