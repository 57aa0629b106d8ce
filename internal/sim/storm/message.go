package storm

import (
	"encoding/binary"

	"github.com/softhca/softhca/ib"
)

// messageLen is the size of a message in bytes.
const messageLen = 32

// grhRoom is the size of the GRH area before a UD message.
const grhRoom = 40

// isSend marks the work request IDs of sends.
const isSend = 1 << 63

// compose returns a message that contains its side, its connection and its
// number.
func (s *side) compose(try, number uint32) []byte {
	b := make([]byte, messageLen)
	binary.BigEndian.PutUint64(b, s.id)
	binary.BigEndian.PutUint32(b[8:], try)
	binary.BigEndian.PutUint32(b[12:], number)
	for i := 16; i < messageLen; i++ {
		b[i] = byte(s.id>>sideBits) + byte(number)*5 + byte(i)
	}
	return b
}

// talk sends some messages.
func (p *program) talk() {
	if p.phase != up || p.sock.qp.State() != ib.RTS {
		return
	}
	w := p.host.w
	for range 1 + p.rand.IntN(3) {
		if p.pending >= 16 {
			break
		}
		p.sent++
		p.pending++
		w.Posted++
		_, err := p.sock.qp.PostSend(ib.SendWR{
			WRID: isSend | uint64(p.sent), Opcode: ib.WRSend, Flags: ib.SendSignaled | ib.SendInline, InlineData: p.compose(p.try, p.sent),
		})
		w.Must(err)
	}
	p.host.HCA.Single().RingDoorbell(p.sock.qp)
}

// talkLoosely sends datagrams to the service that was resolved.
func (p *program) talkLoosely() {
	h, w := p.host, p.host.w
	if p.grant.status != 0 || p.rand.IntN(2) == 0 {
		return
	}
	av := ib.AHAttr{DGID: ib.GIDFromAddr(p.peerAddr), HopLimit: 64, Port: 1}
	if p.asks.v6 {
		av.SGIDIndex = 1
	}
	ah, err := h.PD.CreateAH(&av)
	w.Must(err)
	p.sent++
	w.Posted++
	_, err = h.ud.qp.PostSend(ib.SendWR{
		WRID: isSend, Opcode: ib.WRSend, Flags: ib.SendSignaled | ib.SendInline, InlineData: p.compose(p.try, p.sent),
		AH: ah, RemoteQPN: p.grant.qpn, RemoteQKey: p.grant.qkey,
	})
	w.Must(err)
	h.HCA.Single().RingDoorbell(h.ud.qp)
	h.handles = append(h.handles, ah)
}

// poll polls all completions, and reports whether there were any.
func (h *host) poll() bool {
	w, any := h.w, false
	var wcs [16]ib.WC
	for {
		n := h.cq.Poll(wcs[:])
		if n == 0 {
			return any
		}
		any = true
		for i := range wcs[:n] {
			h.completed(&wcs[i])
		}
		w.Completions += uint64(n)
	}
}

func (h *host) completed(wc *ib.WC) {
	t := h.socks[wc.QPN]
	switch {
	case t == nil || t.owner == nil && t != h.ud && wc.Status != ib.WCWRFlushErr:
		h.w.Fail("data", "adapter %d: a completion of qp %v, which no connection has: %v", h.Index, wc.QPN, wc.Status)
	case wc.WRID&isSend != 0:
		t.sendDone(wc)
	case wc.Status == ib.WCSuccess:
		t.delivered(wc)
		if st := t.qp.State(); st == ib.RTR || st == ib.RTS {
			t.post(wc.WRID)
		}
	case wc.Status != ib.WCWRFlushErr:
		h.w.Fail("data", "adapter %d qp %v: a receive ends with %v", h.Index, wc.QPN, wc.Status)
	}
}

// sendDone checks a completed send. If it succeeded on a reliable connection,
// the peer must have the message.
func (t *socket) sendDone(wc *ib.WC) {
	h, s := t.host, t.owner
	if s == nil { // a datagram, or flushed
		return
	}
	s.pending--
	switch number := uint32(wc.WRID); {
	case wc.Status == ib.WCSuccess:
		if s.kind == reliable && s.peer.rcvd < number {
			h.w.Fail("data", "adapter %d: message %d of %s is acknowledged, and %s has %d", h.Index, number, s, s.peer, s.peer.rcvd)
		}
	case wc.Status == ib.WCRetryExcErr:
		h.w.Mark("messages without a receiver")
		if s.phase == up {
			s.program.after(0, (*program).hangUp)
		}
	case wc.Status != ib.WCWRFlushErr:
		h.w.Fail("data", "adapter %d qp %v: a send ends with %v", h.Index, wc.QPN, wc.Status)
	}
}

// delivered checks a message: it comes from the peer of this connection, is
// complete, and on a reliable connection in order.
func (t *socket) delivered(wc *ib.WC) {
	h, w := t.host, t.host.w
	b := t.slot(wc.WRID)
	if t == h.ud {
		b = b[grhRoom:]
	}
	b = b[:messageLen]
	from := w.sides[binary.BigEndian.Uint64(b)]
	try, number := binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:])
	if from == nil || string(from.compose(try, number)) != string(b) {
		w.Fail("data", "adapter %d qp %v: a message that was never sent: % x", h.Index, t.num, b)
		return
	}
	w.Mark("messages delivered")
	s := t.owner
	switch {
	case t == h.ud:
		if from.kind != datagrams || from.asks.to != h {
			w.Fail("data", "adapter %d: a datagram of %s, which is for another service", h.Index, from)
		}
	case s == nil || from != s.peer || try != s.try:
		w.Fail("data", "adapter %d: %v hears message %d of %s (try %d), which is not its peer", h.Index, s, number, from, try)
	case s.phase == offered:
		w.Fail("data", "adapter %d: %s hears message %d, and is not connected by it", h.Index, s, number)
	case s.kind == reliable && number != s.rcvd+1:
		w.Fail("data", "adapter %d: %s hears message %d of its peer after %d", h.Index, s, number, s.rcvd)
	default:
		s.rcvd = max(s.rcvd, number)
	}
}
