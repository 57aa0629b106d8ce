package script

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/roce"
)

// maxBatches bounds what one step transmits.
const maxBatches = 1000

// flush lets the adapter transmit all it has, unless the network is blocked.
func (w *world) flush() {
	more := !w.blocked
	for n := 0; more && n < maxBatches; n++ {
		more = w.transmitOnce()
	}
	if more {
		w.append("! the adapter does not stop transmitting")
		w.blocked = true
	}
}

// transmitOnce fills one batch and shows it.
func (w *world) transmitOnce() (more bool) {
	more = w.HCA.Single().Transmit(w.now, w.Batch)
	w.settle()
	runs := w.Batch.Pending()
	n := 0
	for i := range runs {
		for k := range runs[i].Count {
			if n < len(w.packets) {
				w.showPacket(&w.packets[n], &runs[i], k)
			}
			n++
		}
	}
	if n != len(w.packets) {
		w.say("! %d packets are in the batch, %d were reported", n, len(w.packets))
	}
	w.seen.sent += uint64(n)
	w.packets = w.packets[:0]
	w.Batch.Reset()
	if more {
		w.say("-- the batch is sent, there is more")
	}
	return more
}

// showPacket fills in the output line that was reserved for a packet.
func (w *world) showPacket(o *outgoing, run *fabric.Run, k int) {
	if o.qp == &w.gsi {
		*o.line = w.connections.showMAD(run, k)
		return
	}
	*o.line += " " + w.showSegment(o.qp, run, k)
}

// showSegment shows a packet that the adapter sent.
func (w *world) showSegment(q *pair, run *fabric.Run, k int) string {
	seg := bytes.Clone(run.Segment(k))
	var p roce.Packet
	if f := p.Parse(seg); f != roce.FaultNone {
		return fmt.Sprintf("that is no packet: %v", f)
	}
	if p.Info.Flags&roce.FlagResponse == 0 {
		last := p.BTH.PSN.Add(psnsOf(&p, q.attr.PathMTU) - 1)
		if !q.isSent || last.Diff(q.sent) > 0 {
			q.sent, q.isSent = last, true
		}
	}
	parts := append([]string{p.BTH.Opcode.String()}, w.showFields(q, &p)...)
	if run.Path.Src != w.local {
		parts = append(parts, "src="+run.Path.Src.String())
	}
	if run.Path.Dst != w.peer {
		parts = append(parts, "dst="+run.Path.Dst.String())
	}
	if run.Path.HopLimit != 64 {
		parts = append(parts, fmt.Sprintf("ttl=%d", run.Path.HopLimit))
	}
	if run.Path.TClass != 0 {
		parts = append(parts, fmt.Sprintf("tos=%#x", run.Path.TClass))
	}
	pre := roce.NewPrefix(run.Path.Src, run.Path.Dst, run.Path.SrcPort, fabric.RoCEPort, len(seg))
	if !roce.Check(seg, pre.WithID(uint16(k))) {
		parts = append(parts, "icrc=bad")
	}
	w.rec.packet(q, seg)
	return strings.Join(parts, " ")
}

// psnsOf returns how many PSNs a request takes.
func psnsOf(p *roce.Packet, mtu ib.MTU) uint32 {
	if !mtu.Valid() {
		return 1
	}
	return p.PSNs(mtu.Bytes())
}

// showFields shows the fields that a packet of its opcode has, those of the BTH
// only where they differ from the usual value.
func (w *world) showFields(q *pair, p *roce.Packet) []string {
	var f []string
	add := func(format string, args ...any) { f = append(f, fmt.Sprintf(format, args...)) }
	flag := func(on bool, name string) {
		if on {
			f = append(f, name)
		}
	}
	h := &p.BTH
	add("psn=%d", h.PSN.Value())
	if p.Info.Service == roce.ServiceRD {
		add("destqp=%s", w.showQPN(h.DestQP))
	} else if h.DestQP != q.attr.DestQPN || p.Info.Service == roce.ServiceUD {
		add("destqp=%#x", uint32(h.DestQP))
	}
	flag(h.AckReq, "ackreq")
	flag(h.SE, "se")
	flag(h.FECN, "fecn")
	flag(h.BECN, "becn")
	if h.MigReq != w.migReq {
		add("migreq=%t", h.MigReq)
	}
	if h.PKey != ib.PKeyDefault {
		add("pkey=%#x", uint16(h.PKey))
	}
	flag(h.Resv6 != 0 || h.Resv7 != 0, "reserved_bits")
	has := func(x roce.Headers) bool { return p.Info.Headers&x != 0 }
	if has(roce.HasRDETH) && p.RDETH.EEC != uint32(q.attr.DestQPN) {
		add("eec=%#x", p.RDETH.EEC)
	}
	if has(roce.HasXRCETH) && p.XRCETH.SRQN != peerSRQN {
		add("srqn=%#x", p.XRCETH.SRQN)
	}
	if has(roce.HasDETH) {
		add("qkey=%#x", uint32(p.DETH.QKey))
		if p.DETH.SrcQP != q.num() {
			add("srcqp=%s", w.showQPN(p.DETH.SrcQP))
		}
	}
	return append(f, ShowExtended(p, w.showTarget, w.showKey)...)
}

// ShowExtended shows a packet's headers from the RETH on, and its payload. The
// caller's functions name remote addresses and keys.
func ShowExtended(p *roce.Packet, target func(va uint64, k ib.RKey) string, key func(k uint32) string) []string {
	var f []string
	add := func(format string, args ...any) { f = append(f, fmt.Sprintf(format, args...)) }
	has := func(x roce.Headers) bool { return p.Info.Headers&x != 0 }
	if has(roce.HasFETH) {
		add("plt=%d sel=%d", p.FETH.Placement, p.FETH.Selectivity)
	}
	if has(roce.HasRETH) {
		add("%s dlen=%d", target(p.RETH.VA, p.RETH.RKey), p.RETH.Length)
	}
	if has(roce.HasAtomicETH) {
		add("%s", target(p.AtomicETH.VA, p.AtomicETH.RKey))
		if p.Info.Kind == roce.KindFetchAdd {
			add("add=%d", p.AtomicETH.SwapAdd)
		} else {
			add("compare=%d swap=%d", p.AtomicETH.Compare, p.AtomicETH.SwapAdd)
		}
	}
	if has(roce.HasAETH) {
		s := p.AETH.Syndrome.String()
		if p.AETH.Syndrome == roce.ACKUnlimited {
			s = "ACK"
		}
		add("%s msn=%d", s, p.AETH.MSN)
	}
	if has(roce.HasAtomicAckETH) {
		add("orig=%d", p.AtomicAck)
	}
	if has(roce.HasImmDt) {
		add("imm=%#x", p.Imm)
	}
	if has(roce.HasIETH) {
		add("inv=%s", key(uint32(p.InvRKey)))
	}
	if n := len(p.Payload); n > 0 {
		add("len=%d data=%s", n, ShowData(p.Payload))
	}
	return f
}

// showTarget shows a remote address and its key.
func (r *registry) showTarget(va uint64, k ib.RKey) string {
	return fmt.Sprintf("va=%#x rkey=%s", va, r.showKey(uint32(k)))
}

// showKey shows a key by the name of its region, if it is one of ours.
func (r *registry) showKey(k uint32) string {
	for _, m := range r.mrs {
		if uint32(m.mr.LKey()) == k {
			return m.name
		}
	}
	return fmt.Sprintf("%#x", k)
}

// showWC shows a completion: of an unsuccessful one only the fields that Q23
// defines.
func (w *world) showWC(k *queue, wc *ib.WC) string {
	who := fmt.Sprintf("qpn(%v)", wc.QPN)
	if q := w.pairOf(wc.QPN); q != nil {
		who = q.name
	}
	w.rec.completion(who, wc)
	f := []string{fmt.Sprintf("wc %s %d %v", who, wc.WRID, wc.Status)}
	add := func(format string, args ...any) { f = append(f, fmt.Sprintf(format, args...)) }
	if wc.Status == ib.WCSuccess {
		add("%v len=%d", wc.Opcode, wc.ByteLen)
		if wc.Flags&ib.WCWithImm != 0 {
			add("imm=%#x", wc.ImmData)
		}
		if wc.Flags&ib.WCWithInv != 0 {
			add("inv=%s", w.showKey(uint32(wc.InvRKey)))
		}
		if wc.Flags&ib.WCGRH != 0 {
			add("grh")
		}
		if wc.Opcode >= ib.WCRecv {
			add("src=%#x", uint32(wc.SrcQP))
		}
		if e := w.eecOf(wc.EEC); wc.EEC != 0 && e != nil {
			add("eec=%s", e.name)
		}
		if wc.PKeyIndex != 0 {
			add("pkey_index=%d", wc.PKeyIndex)
		}
	}
	if k.name != usualCQ {
		add("in %s", k.name)
	}
	if k.timed {
		add("at=%v", k.at.Sub(0))
	}
	return strings.Join(f, " ")
}
