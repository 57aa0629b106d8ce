package channels

import (
	"math/rand/v2"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/virtual"
	"github.com/softhca/softhca/roce"
)

// farPSNs is a distance from the right PSN at which a forged packet must be
// recognised.
const farPSNs = 1 << 16

// strangersOps are the opcodes of forged packets.
var strangersOps = [...]roce.Opcode{
	roce.RDSendOnly, roce.RDSendFirst, roce.RDSendMiddle, roce.RDSendLast, roce.RDRDMAWriteOnly, roce.RDRDMAWriteFirst, roce.RDRDMAReadRequest,
	roce.RDFetchAdd, roce.RDResync, roce.RDAcknowledge, roce.RDAcknowledge, roce.RDRDMAReadResponseOnly, roce.RDAtomicAcknowledge,
}

// strangersNAKs are the syndromes of forged acknowledgements.
var strangersNAKs = [...]roce.Syndrome{
	roce.ACKUnlimited, roce.NAKSequence, roce.NAKInvalidRequest, roce.NAKRemoteAccess, roce.NAKRemoteOperational, roce.NAKInvalidRD, roce.RNRNAK(1),
}

// forge sends a forged packet to an end of a channel in the name of its peer. The
// stranger lacks one fact: the number of the EE context, the path, or the PSNs.
// Sometimes it sends many RESYNCs.
func (w *world) forge(r *rand.Rand) {
	e := w.channels[r.IntN(len(w.channels))].ends[r.IntN(2)]
	n, op := 1+r.IntN(4), roce.Opcode(0)
	if r.IntN(4) == 0 {
		n, op = 32, roce.RDResync
	}
	for range n {
		p := w.forgery(e, op, r)
		d := fabric.Datagram{Src: e.peer.n.Addrs[e.route.at], Dst: e.n.Addrs[e.route.at], SrcPort: e.peer.port}
		if r.IntN(2) == 0 {
			d.SrcPort ^= uint16(1 + r.IntN(0x3fff))
		}
		switch r.IntN(5) {
		case 0:
			p.RDETH.EEC = w.wrongEEC(e, r)
		case 1:
			w.wrongPath(e, &d, &p, r)
		case 2: // the other path, to which a packet may make the end migrate
			d.Src, d.Dst = e.peer.n.Addrs[1-e.route.at], e.n.Addrs[1-e.route.at]
			p.BTH.MigReq = true
			farOff(&p, r)
		default:
			farOff(&p, r)
		}
		d = virtual.Forgery(&p, d.Src, d.Dst, d.SrcPort)
		w.Mark("V18 forged")
		w.tell(e.n, "gets forged", d.Bytes)
		w.hand(e.n, &d, "a forged packet")
	}
	w.turn()
}

// forgery builds a completely valid packet for an end, which would do harm. Opcode
// 0 draws one.
func (w *world) forgery(e *end, op roce.Opcode, r *rand.Rand) roce.Packet {
	if op == 0 {
		op = strangersOps[r.IntN(len(strangersOps))]
	}
	mine := w.programs[e.n.Index*w.plan.programs+r.IntN(w.plan.programs)]
	peer := w.programs[e.peer.n.Index*w.plan.programs+r.IntN(w.plan.programs)]
	info, a := op.Info(), e.eec.Query()
	p := roce.Packet{
		BTH:   roce.BTH{Opcode: op, PKey: ib.PKeyDefault, DestQP: mine.q.Num(), PSN: a.RQPSN, AckReq: true, MigReq: r.IntN(2) == 0},
		RDETH: roce.RDETH{EEC: uint32(e.eec.Num())},
		DETH:  roce.DETH{QKey: mine.qkey, SrcQP: peer.q.Num()},
		RETH:  roce.RETH{VA: e.n.mr.Addr() + atText, RKey: e.n.mr.RKey(), Length: 16},
		AETH:  roce.AETH{Syndrome: strangersNAKs[r.IntN(len(strangersNAKs))]},
	}
	p.AtomicETH = roce.AtomicETH{VA: e.n.mr.Addr() + atCount + uint64(8*peer.index), RKey: e.n.mr.RKey(), SwapAdd: 1 << 20}
	switch info.Payload {
	case roce.PayloadNone:
	case roce.PayloadMTU:
		p.Payload = make([]byte, ib.MTU(w.plan.mtu).Bytes())
	case roce.Payload8:
		p.Payload = make([]byte, 8)
	default:
		p.Payload = make([]byte, 16)
	}
	if info.Flags&roce.FlagResponse != 0 {
		p.BTH.PSN, p.BTH.AckReq = a.SQPSN.Prev(), false
	}
	return p
}

// farOff sets the PSN of a packet far from the right one.
func farOff(p *roce.Packet, r *rand.Rand) {
	off := uint32(farPSNs + r.IntN(1<<23-2*farPSNs))
	if r.IntN(2) == 0 {
		off = -off
	}
	p.BTH.PSN = p.BTH.PSN.Add(off)
}

// wrongEEC returns a number that is not that of the end: an unused one, that of
// an unconnected EE context, or of one with another peer.
func (w *world) wrongEEC(e *end, r *rand.Rand) uint32 {
	kind := r.IntN(3)
	if kind == 0 {
		return uint32(e.n.alien.Num())
	}
	for _, c := range w.channels {
		for _, o := range c.ends {
			if kind == 1 && o.n == e.n && o.peer.n != e.peer.n {
				return uint32(o.eec.Num())
			}
		}
	}
	guess := ib.EECN(1 + r.Uint32N(1<<24-1))
	for e.n.ends[guess] != nil {
		guess++
	}
	return uint32(guess)
}

// wrongPath sets addresses other than those of the end's path: of a stranger,
// mixed from both paths or, if that cannot make the end migrate, of the other
// path.
func (w *world) wrongPath(e *end, d *fabric.Datagram, p *roce.Packet, r *rand.Rand) {
	other := 1 - e.route.at
	switch r.IntN(4) {
	case 0:
		d.Src = netip.AddrFrom4([4]byte{10, 0, 9, 9})
	case 1:
		d.Src = e.peer.n.Addrs[other]
	case 2:
		d.Dst = e.n.Addrs[other]
	default:
		d.Src, d.Dst = e.peer.n.Addrs[other], e.n.Addrs[other]
		if e.eec.Query().PathMigState == ib.ARMED {
			p.BTH.MigReq = false
		}
	}
}
