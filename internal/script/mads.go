package script

import (
	"fmt"
	"slices"
	"strings"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/virtual"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// kind says how a script makes and shows one kind of connection manager
// message.
type kind struct {
	attr mad.AttrID
	// make makes a message of the peer from the words of a command.
	make func(*world, *connection, *args) message
	// sent shows a message that the adapter sent.
	sent func(*world, *connection, *mad.MAD) []string
	// told shows the message's fields in an event, nothing if the event has
	// none.
	told func(*world, *cm.Event) []string
}

type message interface {
	Decode(*mad.MAD)
	Put(*mad.MAD)
}

// kinds are the messages, in the order of their attribute IDs.
var kinds = [...]kind{
	kindOf(mad.AttrREQ, reqFields, (*connection).usualREQ, func(e *cm.Event) *mad.REQ { return e.REQ }),
	kindOf(mad.AttrMRA, mraFields, (*connection).usualMRA, func(e *cm.Event) *mad.MRA { return e.MRA }),
	kindOf(mad.AttrREJ, rejFields, (*connection).usualREJ, func(e *cm.Event) *mad.REJ { return e.REJ }),
	kindOf(mad.AttrREP, repFields, (*connection).usualREP, func(e *cm.Event) *mad.REP { return e.REP }),
	kindOf(mad.AttrRTU, rtuFields, (*connection).usualRTU, func(e *cm.Event) *mad.RTU { return e.RTU }),
	kindOf(mad.AttrDREQ, dreqFields, (*connection).usualDREQ, func(e *cm.Event) *mad.DREQ { return e.DREQ }),
	kindOf(mad.AttrDREP, drepFields, (*connection).usualDREP, func(e *cm.Event) *mad.DREP { return e.DREP }),
	kindOf(mad.AttrSIDRREQ, sidrReqFields, (*connection).usualSIDRREQ, func(e *cm.Event) *mad.SIDRREQ { return e.SIDRREQ }),
	kindOf(mad.AttrSIDRREP, sidrRepFields, (*connection).usualSIDRREP, func(e *cm.Event) *mad.SIDRREP { return e.SIDRREP }),
	kindOf(mad.AttrLAP, lapFields, (*connection).usualLAP, func(e *cm.Event) *mad.LAP { return e.LAP }),
	kindOf(mad.AttrAPR, aprFields, (*connection).usualAPR, func(e *cm.Event) *mad.APR { return e.APR }),
}

// kindOf makes the kind of a message from its fields, its default values, and
// its place in an event.
func kindOf[M any, P interface {
	*M
	message
}](attr mad.AttrID, fields []field[M], usual func(*connection, side) M, of func(*cm.Event) *M) kind {
	return kind{
		attr: attr,
		make: func(w *world, c *connection, a *args) message {
			m := usual(c, peer)
			readFields(w, &m, fields, a)
			return P(&m)
		},
		sent: func(w *world, c *connection, d *mad.MAD) []string {
			var m M
			P(&m).Decode(d)
			u := usual(c, adapter)
			return showSent(w, &m, &u, fields)
		},
		told: func(w *world, e *cm.Event) []string {
			if m := of(e); m != nil {
				return showTold(w, m, fields)
			}
			return nil
		},
	}
}

// Names in scripts for the adapter's own QP1 and for a management datagram that
// is no connection message.
const (
	gsiName = "QP1"
	madName = "MAD"
)

// injectMAD hands the adapter a management datagram of the peer: < CONN
// MESSAGE and fields, < CONN MESSAGE again, or < QP1 MAD and fields.
func (cs *connections) injectMAD(c *connection, a *args) error {
	m, err := cs.peerMAD(c, a)
	if err != nil {
		return err
	}
	p := roce.Packet{
		BTH: roce.BTH{
			Opcode: roce.UDSendOnly, MigReq: true, PKey: ib.PKeyDefault, DestQP: ib.QPNGSI, PSN: cs.gsi.peerPSN, AckReq: true,
		},
		DETH:    roce.DETH{QKey: ib.QKeyGSI, SrcQP: ib.QPN(a.small("srcqp", uint64(ib.QPNGSI), 24))},
		Payload: m[:],
	}
	d := virtual.Forgery(&p, a.addr("src", cs.peer), a.addr("dst", cs.local), 0xd872)
	d.TClass = uint8(a.small("tos", 0, 8))
	if err := a.done(); err != nil {
		return err
	}
	cs.gsi.peerPSN = cs.gsi.peerPSN.Next()
	cs.talking = c
	cs.deliver(&d)
	cs.talking = nil
	return nil
}

// peerMAD makes the datagram from the words.
func (cs *connections) peerMAD(c *connection, a *args) (*mad.MAD, error) {
	name := a.word("a message")
	m := new(mad.MAD)
	cs.cause = name
	if c == nil {
		h := mad.Header{BaseVersion: mad.BaseVersion}
		readFields(cs.world, &h, headerFields, a)
		m.PutHeader(h)
		if err := setBytes(m.Data()[:], a.str("data", ""), nil); err != nil {
			return nil, fmt.Errorf("data: %w", err)
		}
		return m, a.err
	}
	k, err := findKind(name)
	if err != nil {
		return nil, err
	}
	if a.flag("again") {
		last, ok := c.got[k.attr]
		if !ok {
			return nil, fmt.Errorf("the peer has not sent a %v", k.attr)
		}
		return &last, nil
	}
	msg := k.make(cs.world, c, a)
	c.learnPeer(msg)
	about := mad.WhichOther
	if x, ok := msg.(*mad.MRA); ok {
		about = x.Message
	}
	h := mad.CMHeader(k.attr, c.tid(k.attr, peer, about))
	readFields(cs.world, &h, headerFields, a)
	c.noteTID(k.attr, peer, h.TID)
	m.PutHeader(h)
	msg.Put(m)
	c.got[k.attr] = *m
	return m, a.err
}

func findKind(name string) (*kind, error) {
	var known []string
	for i := range kinds {
		if kinds[i].attr.String() == name {
			return &kinds[i], nil
		}
		known = append(known, kinds[i].attr.String())
	}
	return nil, fmt.Errorf("there is no message %s%s", name, hint(name, known))
}

// learnPeer remembers the IDs and numbers that the peer gave, so that its later
// messages use them.
func (c *connection) learnPeer(m message) {
	switch m := m.(type) {
	case *mad.REQ:
		c.peer, c.service = node{m.LocalCommID, m.LocalQPN, m.LocalCAGUID, ib.EECN(m.LocalEECN)}, m.ServiceID
	case *mad.REP:
		c.peer = node{m.LocalCommID, m.LocalQPN, m.LocalCAGUID, ib.EECN(m.LocalEECN)}
	case *mad.SIDRREQ:
		c.peer.id, c.service = m.RequestID, m.ServiceID
	}
}

// showMAD shows a datagram that QP1 sent.
func (cs *connections) showMAD(run *fabric.Run, k int) string {
	var p roce.Packet
	if f := p.Parse(slices.Clone(run.Segment(k))); f != roce.FaultNone || len(p.Payload) != mad.Size {
		return "> " + gsiName + " " + cs.showSegment(&cs.gsi, run, k)
	}
	m := mad.MAD(p.Payload)
	who, f := gsiName, []string{madName}
	if h := m.Header(); h.IsCM() {
		who, f = cs.showMessage(&m, &h)
	} else {
		f = append(f, showSent(cs.world, &h, &mad.Header{BaseVersion: mad.BaseVersion}, headerFields)...)
		f = append(f, "data="+ShowData(m.Data()[:]))
	}
	return "> " + strings.Join(append(append([]string{who}, f...), cs.showWay(&p, run, k)...), " ")
}

// showMessage shows a message of the communication manager and returns the name
// of its connection.
func (cs *connections) showMessage(m *mad.MAD, h *mad.Header) (who string, f []string) {
	k := &kinds[h.AttrID-mad.AttrREQ]
	cs.seen.cmSent[h.AttrID-mad.AttrREQ]++
	c := cs.speaker(m, h.AttrID)
	if c == nil {
		c, who = &connection{of: cs}, gsiName
	} else {
		who = c.name
	}
	f = append(f, h.AttrID.String())
	if last, ok := c.sent[h.AttrID]; ok && last == *m {
		cs.seen.cmAgain[h.AttrID-mad.AttrREQ]++
		return who, append(f, "again")
	}
	var about mad.MRA // MRA and REJ begin with the same fields
	about.Decode(m)
	usual := mad.CMHeader(h.AttrID, c.tid(h.AttrID, adapter, about.Message))
	f = append(f, k.sent(cs.world, c, m)...)
	if who != gsiName {
		f = append(f, showSent(cs.world, h, &usual, headerFields)...)
		c.noteTID(h.AttrID, adapter, h.TID)
		c.sent[h.AttrID] = *m
	}
	return who, f
}

// speaker returns the connection that a message of the adapter belongs to,
// nil for none: the message has the IDs of the connection.
func (cs *connections) speaker(m *mad.MAD, attr mad.AttrID) *connection {
	var ids mad.RTU // every message begins with one or both IDs
	ids.Decode(m)
	local, remote := ids.LocalCommID, ids.RemoteCommID
	switch attr {
	case mad.AttrREQ, mad.AttrSIDRREQ:
		remote = 0
	case mad.AttrSIDRREP:
		local, remote = 0, local
	}
	for _, c := range cs.all {
		if local != 0 && local == c.id {
			return c
		}
	}
	for _, c := range cs.all {
		if remote != 0 && remote == c.peer.id {
			return c
		}
	}
	return nil
}

// showWay shows what is unusual about the packet around a datagram.
func (cs *connections) showWay(p *roce.Packet, run *fabric.Run, k int) []string {
	seg, path := run.Segment(k), &run.Path
	usual := roce.BTH{
		Opcode: roce.UDSendOnly, MigReq: cs.migReq, PKey: ib.PKeyDefault, DestQP: ib.QPNGSI, PSN: cs.gsi.sent, AckReq: true,
	}
	cs.gsi.sent = p.BTH.PSN.Next()
	var f []string
	add := func(unusual bool, format string, args ...any) {
		if unusual {
			f = append(f, fmt.Sprintf(format, args...))
		}
	}
	add(p.BTH.PKey != usual.PKey, "bth_pkey=%#x", uint16(p.BTH.PKey))
	add(p.BTH.DestQP != usual.DestQP, "destqp=%#x", uint32(p.BTH.DestQP))
	usual.PKey, usual.DestQP = p.BTH.PKey, p.BTH.DestQP
	add(p.BTH != usual || p.DETH != roce.DETH{QKey: ib.QKeyGSI, SrcQP: ib.QPNGSI}, "unusual(%+v,%+v)", p.BTH, p.DETH)
	add(path.Src != cs.local, "src=%v", path.Src)
	add(path.Dst != cs.peer, "dst=%v", path.Dst)
	add(path.HopLimit != cm.DefaultHopLimit, "ttl=%d", path.HopLimit)
	add(path.TClass != 0, "tos=%d", path.TClass)
	pre := roce.NewPrefix(path.Src, path.Dst, path.SrcPort, fabric.RoCEPort, len(seg))
	add(!roce.Check(seg, pre.WithID(uint16(k))), "icrc=bad")
	return f
}
