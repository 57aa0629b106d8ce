package hca_test

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// The instructions of a program against a cmVictim. IDs, QPNs and addresses are
// those that the victim has, or no fuzzer would get past them.
const (
	cmForge  instruction = iota // a message of a connection, valid or malformed, from any sender
	cmReplay                    // one of the last messages again, from any sender
	cmRaw                       // a message whose bytes are in the program
	cmHeader                    // the last message with a byte of its header changed
	cmShape                     // the last message in a packet that is wrong elsewhere
	cmBurst                     // many messages with unknown IDs
	cmData                      // a packet of data for a connection's QP
	cmCall                      // the consumer makes a call on a connection
	cmAsk                       // the consumer connects to a host
	cmTemper                    // what the consumer does in its handler from now on
	cmQP                        // the consumer moves or destroys a connection's QP
	cmListen                    // the listener is closed, or opened again
	cmPeer                      // the honest peer begins or ends another connection
	cmTalk                      // the honest peer and the victim send to each other
	cmWait                      // time passes
	cmTimer                     // time passes to the next deadline
	numCMInstructions
)

// runCM carries the program out.
func (p *program) runCM(v *cmVictim) {
	for n := 0; p.off < len(p.b) && n < maxSteps; n++ {
		switch instruction(p.byte()) % numCMInstructions {
		case cmForge:
			v.stepForge(p)
		case cmReplay:
			v.stepReplay(p)
		case cmRaw:
			v.mad = mad.MAD{}
			v.mad.PutHeader(mad.CMHeader(mad.AttrREQ+mad.AttrID(p.byte()%12), uint64(p.byte())))
			copy(v.mad.Data()[:], p.take(int(p.byte())))
			v.meet(v.host(p.byte()))
		case cmHeader:
			v.mad = v.last
			v.mad[p.byte()%mad.HeaderSize] = p.byte()
			v.meet(v.host(p.byte()))
		case cmShape:
			v.stepShape(p)
		case cmBurst:
			v.stepBurst(p)
		case cmData:
			v.stepData(p)
		case cmCall:
			v.stepCall(p)
		case cmAsk:
			v.stepAsk(p)
		case cmTemper:
			v.reaction = p.byte()
		case cmQP:
			v.stepQP(p)
		case cmListen:
			if v.listener == nil {
				v.listen()
			} else {
				v.listener.Close()
				v.listener = nil
			}
		case cmPeer:
			v.stepPeer(p.byte())
		case cmTalk:
			v.talk()
		case cmWait:
			v.pass(v.Now.Add(time.Microsecond << (p.byte() % 34)))
		case cmTimer:
			v.pass(min(v.Sides[1].HCA.Single().Deadline(), v.Now.Add(time.Hour)))
		}
		for v.carry() {
		}
		v.check()
	}
}

// pass fires what is due until an instant, on both sides.
func (v *cmVictim) pass(to clock.Instant) {
	for _, side := range v.Sides {
		v.Now = max(v.Now, to)
		side.HCA.Single().Advance(v.Now)
		if d := side.HCA.Single().Deadline(); d <= v.Now {
			v.T.Fatalf("after Advance to %d the deadline is %d", v.Now, d)
		}
	}
}

// host chooses the sender: mostly strangers and the peer, but also the victim
// itself, and addresses of no host.
func (v *cmVictim) host(code byte) netip.Addr {
	return []netip.Addr{
		stranger1, v.Sides[0].Addr, stranger2, stranger1, v.Sides[0].Addr, v.Sides[1].Addr, stranger6, netip.IPv4Unspecified(),
		netip.AddrFrom4([4]byte{224, 0, 0, 9}), netip.AddrFrom4([4]byte{255, 255, 255, 255}),
	}[code%10]
}

// pick chooses a connection of the victim's; nil for none.
func (v *cmVictim) pick(code byte) *cm.Conn {
	all := []*cm.Conn{nil, v.bond.conn[1], v.spare.conn[1]}
	for _, g := range v.guests {
		all = append(all, g.conn)
	}
	return all[int(code)%len(all)]
}

// guestOf chooses a guest; nil if there is none.
func (v *cmVictim) guestOf(code byte) *guest {
	if len(v.guests) == 0 {
		return nil
	}
	return v.guests[int(code)%len(v.guests)]
}

// stepForge sends a message of a connection's peer, with up to four bytes
// changed anywhere, and another sender.
func (v *cmVictim) stepForge(p *program) {
	attr, who, how, spoil, value := mad.AttrREQ+mad.AttrID(p.byte()%11), p.byte(), p.byte(), p.byte(), p.byte()
	c := v.pick(who)
	from := v.host(value)
	if c != nil && how&0xf0 != 0xf0 {
		from = c.Path().Remote
	}
	v.mad = mad.MAD{}
	v.mad.PutHeader(mad.CMHeader(attr, uint64(value)))
	v.message(attr, c, from, value).Put(&v.mad)
	data := v.mad.Data()[int(spoil)%(mad.DataSize-4):]
	switch how & 7 {
	case 1:
		binary.BigEndian.PutUint32(data, 0)
	case 2:
		binary.BigEndian.PutUint32(data, 0xffffffff)
	case 3:
		data[0] = value
	case 4:
		data[0] ^= 1 << (value & 7)
	}
	v.meet(from)
}

// message returns a message for a connection or, without one, for an unknown
// ID.
func (v *cmVictim) message(attr mad.AttrID, c *cm.Conn, from netip.Addr, value byte) interface{ Put(*mad.MAD) } {
	theirs, ours, qpn, guid := 0x1000+uint32(value), uint32(value), ib.QPN(value)+2, uint64(hostileGUID)
	if c != nil {
		theirs, ours = c.RemoteID(), c.LocalID()
		if q := c.RemoteQPN(); q != 0 {
			qpn = q
		}
		if theirs == 0 { // an active one without an answer yet
			theirs = 0x2000 + uint32(value)
		}
	}
	if from == v.Sides[0].Addr && value&0x80 == 0 {
		guid = v.Sides[0].HCA.NodeGUID()
	}
	switch attr {
	case mad.AttrREQ:
		q := hostileREQ(v.siege, from, theirs)
		q.LocalCAGUID, q.LocalQPN = guid, qpn
		if c == nil {
			q.LocalResponseTimeout, q.MaxCMRetries, q.Primary.LocalAckTimeout = value&31, value&15, value>>3
		}
		if c == nil && value&0x40 != 0 {
			q.ServiceID = nobodyService
		}
		return q
	case mad.AttrMRA:
		return &mad.MRA{LocalCommID: theirs, RemoteCommID: ours, Message: mad.Which(value & 3), ServiceTimeout: value >> 3}
	case mad.AttrREJ:
		j := &mad.REJ{LocalCommID: theirs, RemoteCommID: ours, Message: mad.Which(value & 3), Reason: mad.RejReason(value >> 2)}
		if value >= 0xf0 { // named by the node
			j.RemoteCommID, j.Reason, j.InfoLength = 0, mad.RejTimeout, 8
			binary.BigEndian.PutUint64(j.Info[:], guid)
		}
		return j
	case mad.AttrREP:
		return &mad.REP{
			LocalCommID: theirs, RemoteCommID: ours, LocalQPN: qpn, LocalCAGUID: guid, StartingPSN: ib.NewPSN(uint32(value)),
			ResponderResources: value, InitiatorDepth: value, TargetAckDelay: value & 31, RNRRetryCount: value & 7,
		}
	case mad.AttrDREQ:
		return &mad.DREQ{LocalCommID: theirs, RemoteCommID: ours, RemoteQPN: v.qpnOf(c)}
	case mad.AttrSIDRREQ:
		q := &mad.SIDRREQ{RequestID: theirs, PKey: ib.PKeyDefault, ServiceID: siegeService}
		if value&0x40 != 0 {
			q.ServiceID = nobodyService
		}
		return q
	case mad.AttrSIDRREP:
		return &mad.SIDRREP{RequestID: ours, Status: mad.SIDRStatus(value & 7), QPN: qpn, ServiceID: siegeService}
	case mad.AttrLAP:
		l := &mad.LAP{LocalCommID: theirs, RemoteCommID: ours, RemoteQPN: v.qpnOf(c)}
		l.Alternate = hostileREQ(v.siege, from, 1).Primary
		l.Alternate.FlowLabel = uint32(value)
		return l
	case mad.AttrAPR:
		return &mad.APR{LocalCommID: theirs, RemoteCommID: ours, Status: mad.APRStatus(value & 15)}
	}
	return &ids{theirs, ours}
}

// qpnOf returns the number of the victim's QP that a connection is for.
func (v *cmVictim) qpnOf(c *cm.Conn) ib.QPN {
	for _, l := range v.links {
		if l.conn[1] == c {
			return l.qp[1].Num()
		}
	}
	for _, g := range v.guests {
		if g.conn == c && g.qp != nil {
			return g.qp.Num()
		}
	}
	return 0x77 // the consumer's number without a QP
}

func (v *cmVictim) stepReplay(p *program) {
	which, from := p.byte(), p.byte()
	if len(v.past) == 0 {
		return
	}
	old := v.past[int(which)%len(v.past)]
	v.mad = old.mad
	if from&0x80 != 0 {
		old.from = v.host(from)
	}
	v.meet(old.from)
}

// stepShape sends the last message in a packet that is no valid MAD packet: it
// has no effect but a count. It is too long or too short, or has the wrong
// source QP or Q_Key.
func (v *cmVictim) stepShape(p *program) {
	what, n, from := p.byte(), p.byte(), v.host(p.byte())
	q := roce.Packet{
		BTH:     roce.BTH{Opcode: roce.UDSendOnly, PKey: ib.PKeyDefault, DestQP: ib.QPNGSI},
		DETH:    roce.DETH{QKey: ib.QKeyGSI, SrcQP: ib.QPNGSI},
		Payload: v.last[:],
	}
	switch what % 7 {
	case 0:
		q.Payload = q.Payload[:n]
	case 1:
		q.Payload = append(v.last[:], make([]byte, 1+int(n))...)
	case 2:
		q.BTH.Opcode = roce.UDSendOnlyWithImm
	case 3:
		q.DETH.QKey ^= 1 << (n & 31)
	case 4:
		q.BTH.PKey = ib.PKey(uint16(n)<<8) | 1
	case 5:
		q.DETH.SrcQP = 0
	case 6:
		q.BTH.DestQP = 0
	}
	before, conns := v.replies(), v.Sides[1].HCA.CM().Counters()
	b := make([]byte, roce.Size(q.BTH.Opcode, len(q.Payload)))
	q.Build(b)
	d := v.sealed(from, b)
	v.Sides[1].HCA.Single().Receive(v.Now, &d)
	if v.replies() != before || v.Sides[1].HCA.CM().Counters() != conns {
		v.T.Fatalf("a packet that is no MAD, of kind %d, has an effect", what%7)
	}
}

// stepBurst sends messages of one kind, each of another ID.
func (v *cmVictim) stepBurst(p *program) {
	attr, n, from, value := mad.AttrREQ+mad.AttrID(p.byte()%11), p.byte()&31, v.host(p.byte()), p.byte()
	for i := range uint32(n) {
		v.mad = mad.MAD{}
		v.mad.PutHeader(mad.CMHeader(attr, uint64(i)))
		v.message(attr, nil, from, value).Put(&v.mad)
		binary.BigEndian.PutUint32(v.mad.Data()[:], 0x3000+i)
		if attr == mad.AttrREQ {
			binary.BigEndian.PutUint32(v.mad.Data()[32:], (0x3000+i)<<8)
		}
		v.meet(from)
	}
}

// stepData sends a packet to the QP of a guest, as its peer would: it may be
// the first, and finish the connection (Q9, C4).
func (v *cmVictim) stepData(p *program) {
	g, value := v.guestOf(p.byte()), p.byte()
	if g == nil || g.qp == nil {
		return
	}
	a := g.qp.Query()
	q := roce.Packet{
		BTH: roce.BTH{Opcode: roce.RCSendOnly, PKey: ib.PKeyDefault, DestQP: g.qp.Num(), PSN: a.RQPSN.Add(uint32(value & 1)), AckReq: true},
	}
	b := make([]byte, roce.Size(q.BTH.Opcode, 0))
	q.Build(b)
	from := a.AV.DGID.Addr()
	if value&2 != 0 {
		from = stranger2
	}
	d := v.sealed(from, b)
	v.Sides[1].HCA.Single().Receive(v.Now, &d)
}

// stepCall makes a call on a guest's connection; what the state does not allow
// is refused.
func (v *cmVictim) stepCall(p *program) {
	g, what, arg := v.guestOf(p.byte()), p.byte(), p.byte()
	if g == nil || g.over {
		return
	}
	c := g.conn
	switch what % 14 {
	case 0:
		v.answer(v.Now, g, cm.REQReceived)
	case 1:
		v.answer(v.Now, g, cm.REPReceived)
	case 2:
		v.answer(v.Now, g, cm.SIDRREQReceived)
	case 3:
		_ = c.SendREJ(v.Now, &cm.REJParams{Reason: mad.RejReason(arg)})
	case 4:
		_ = c.SendMRA(v.Now, arg&31, nil)
	case 5:
		_ = c.PrepareMRA(v.Now, arg&31, nil)
	case 6:
		_ = c.Establish(v.Now)
	case 7:
		v.leave(g)
		_ = c.SendDREQ(v.Now, nil)
	case 8:
		_ = c.SendDREP(v.Now, nil)
	case 9:
		_ = c.SendLAP(v.Now, &cm.Path{Local: v.Sides[1].Addr, Remote: stranger2, MTU: ib.MTU1024}, nil)
	case 10:
		_ = c.SendAPR(v.Now, &cm.APRParams{Status: mad.APRStatus(arg)})
	case 11:
		_ = c.SendREP(v.Now, &cm.REPParams{QPN: 0x77})
	case 12:
		_ = c.SendRTU(v.Now, nil)
	case 13:
		v.end(g)
	}
}

// stepAsk has the consumer begin a connection or a resolution with some host,
// or use an old connection again.
func (v *cmVictim) stepAsk(p *program) {
	to, how := v.host(p.byte()), p.byte()
	g := v.guestOf(how >> 2)
	if g == nil || g.over || how&2 == 0 {
		g = &guest{}
		g.conn = v.Sides[1].HCA.CM().NewConn(v.onEvent)
		g.conn.Consumer = g
	}
	path := cm.Path{Local: v.Sides[1].Addr, Remote: to, MTU: ib.MTU1024, Lifetime: how >> 4}
	var err error
	if how&1 == 0 {
		err = g.conn.SendREQ(v.Now, &cm.REQParams{Service: siegeService, QPN: 0x77, Path: path, MaxRetries: 1 + how>>5})
	} else {
		err = g.conn.SendSIDRREQ(v.Now, &cm.SIDRREQParams{Service: siegeService, Path: path, MaxRetries: 1 + how>>5})
	}
	if err == nil && how&2 == 0 {
		v.guests = append(v.guests, g)
	}
}

// stepQP moves or destroys the QP of a guest under its connection.
func (v *cmVictim) stepQP(p *program) {
	g, what := v.guestOf(p.byte()), p.byte()
	if g == nil || g.qp == nil {
		return
	}
	switch what % 3 {
	case 0:
		v.leave(g)
	case 1:
		_ = g.qp.Modify(v.Now, &ib.QPAttr{State: ib.RESET}, ib.AttrState)
	case 2:
		v.disarm(g)
	}
}

// stepPeer has the honest peer connect once more, disconnect, or give up.
func (v *cmVictim) stepPeer(what byte) {
	l := v.spare
	switch what % 4 {
	case 0, 1:
		for _, c := range l.conn {
			if c != nil {
				c.Destroy(v.Now)
			}
		}
		l.reset()
		l.ask()
	case 2, 3:
		if i := int(what & 1); l.in(cm.Established) {
			l.leave(i)
		} else if l.conn[i] != nil {
			l.conn[i].Destroy(v.Now)
		}
	}
}
