package qp

import (
	"encoding/binary"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/roce"
)

// sendDatagram appends a UD message: one packet to the work request's own
// destination. It returns 0 when the batch is full. A handle that is gone and
// a message over the MTU are errors of the work request.
func (q *QP) sendDatagram(b *fabric.Batch, w *sendWQE) (uint32, ib.WCStatus) {
	ah := q.env.AHs.Get(w.AH)
	switch {
	case ah == nil, ah.PD != q.pd:
		return 0, ib.WCLocQPOpErr
	case w.Length > uint32(q.env.Limits.ActiveMTU.Bytes()):
		return 0, ib.WCLocLenErr
	}
	op := roce.UDSendOnly
	if w.Opcode == ib.WRSendWithImm {
		op = roce.UDSendOnlyWithImm
	}
	p := q.header(op, q.req.psn)
	p.BTH.DestQP = w.RemoteQPN
	p.BTH.SE = w.Flags&ib.SendSolicited != 0
	p.BTH.AckReq = q.typ == ib.GSI // Linux asks for it on QP1; receivers ignore it
	p.DETH = roce.DETH{QKey: w.RemoteQKey, SrcQP: q.num}
	if w.RemoteQKey&ib.QKeyControlled != 0 {
		p.DETH.QKey = q.attr.QKey
	}
	p.Imm = w.Imm
	path := ah.Path
	if q.path.SrcPort != 0 {
		path.SrcPort = q.path.SrcPort
	}
	seg, payload, id := q.append(b, &path, w.Length)
	if seg == nil {
		return 0, ib.WCSuccess
	}
	if !q.gather(payload, q.req.next, 0) {
		b.Unappend()
		return 0, ib.WCLocProtErr
	}
	pre := roce.NewPrefix(path.Src, path.Dst, path.SrcPort, fabric.RoCEPort, len(seg))
	q.seal(seg, pre.WithID(uint16(id)))
	return 1, ib.WCSuccess
}

// putGRH fills the 40 bytes before a UD payload with the IP header that the
// packet came with: IPv6 whole, IPv4 in the last 20 bytes.
func putGRH(b *[grhBytes]byte, p *Packet) {
	d := p.Data
	if d.Src.Is4() {
		putIPv4(b[20:], p)
		return
	}
	src, dst := d.Src.As16(), d.Dst.As16()
	binary.BigEndian.PutUint32(b[0:], 6<<28|uint32(d.TClass)<<20|d.FlowLabel&0xfffff)
	binary.BigEndian.PutUint16(b[4:], uint16(p.Size+8))
	b[6], b[7] = 17, d.HopLimit
	copy(b[8:], src[:])
	copy(b[24:], dst[:])
}

func putIPv4(b []byte, p *Packet) {
	d := p.Data
	src, dst := d.Src.As4(), d.Dst.As4()
	b[0], b[1] = 0x45, d.TClass
	binary.BigEndian.PutUint16(b[2:], uint16(p.Size+28))
	binary.BigEndian.PutUint16(b[4:], p.ID)
	b[6] = 0x40 // do not fragment
	b[8], b[9] = d.HopLimit, 17
	copy(b[12:], src[:])
	copy(b[16:], dst[:])
	sum := uint32(0)
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	sum = sum&0xffff + sum>>16
	binary.BigEndian.PutUint16(b[10:], ^uint16(sum+sum>>16))
}
