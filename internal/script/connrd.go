package script

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/mad"
)

// Connections of reliable datagrams: the consumer's queue pair and EE context,
// and the peer's numbers.

// Numbers for an RD connection that has neither a queue pair nor an EE context.
const (
	ownEECN     = 0x222
	peerConnEEC = 0x555580 // the peer's, and the numbers after it
)

// takeRD takes eec=EEC and rd of conn.
func (cs *connections) takeRD(a *args, c *connection, n int) (err error) {
	c.rd = a.flag("rd") || c.qp != nil && c.qp.Type() == ib.RD
	c.peer.eecn = peerConnEEC + ib.EECN(n)
	if a.has("eec") {
		c.rd = true
	}
	if c.rd {
		c.service = mad.IPServiceID(mad.PSRD, peerPort)
	}
	if !a.has("eec") {
		return nil
	}
	if c.eec, err = find[*pair](&cs.registry, a.str("eec", "")); err == nil && c.eec.eec == nil {
		err = fmt.Errorf("%s is a queue pair: want an EE context", c.eec.name)
	}
	if err == nil {
		c.peer.eecn = ib.EECN(c.eec.attr.DestQPN)
	}
	return err
}

// eecn is the number of the EE context of a connection.
func (c *connection) eecn() ib.EECN {
	switch {
	case c.conn != nil && c.conn.Channel() != nil && c.conn.Channel().Local() != 0:
		return c.conn.Channel().Local()
	case c.eec != nil:
		return c.eec.eec.Num()
	}
	return ownEECN
}

// askRD takes the words of connect that only an RD connection has: channel=CONN
// joins the channel of another one.
func (cs *connections) askRD(a *args, c *connection, p *cm.REQParams) error {
	if !c.rd {
		return nil
	}
	p.QKey = ib.QKey(a.small("qkey", uint64(c.qkey()), 32))
	if !a.has("channel") {
		p.EECN = ib.EECN(a.num("eecn", uint64(c.eecn()), number))
		return nil
	}
	o, err := find[*connection](&cs.registry, a.str("channel", ""))
	if err == nil && (o.conn == nil || o.conn.Channel() == nil) {
		err = fmt.Errorf("%s has no channel", o.name)
	}
	if err == nil {
		p.Channel = o.conn.Channel()
	}
	return err
}

// answerRD takes the words of accept that only an RD connection has.
func (cs *connections) answerRD(a *args, c *connection, p *cm.REPParams) {
	if !c.rd {
		return
	}
	p.QKey = ib.QKey(a.small("qkey", uint64(c.qkey()), 32))
	if !c.conn.Channel().JoinedBy(c.conn) || a.has("eecn") {
		p.EECN = ib.EECN(a.num("eecn", uint64(c.eecn()), number))
	}
}

// qkey is the Q_Key of the connection's queue pair.
func (c *connection) qkey() ib.QKey {
	if c.qp != nil && c.qp.State() != ib.RESET {
		return c.qp.Query().QKey
	}
	return qkey
}

// establishRD moves the EE context and the queue pair of a connection.
func (cs *connections) establishRD(c *connection) error {
	e, q := c.eec, c.qp
	if k, ok := cs.contextOf(c.conn.Channel()); ok {
		e = k
	}
	if e == nil {
		return fmt.Errorf("%s has no EE context: want eec=NAME in conn", c.name)
	}
	var err error
	if q == nil {
		err = cs.HCA.EstablishRD(cs.now, c.conn, e.eec, nil)
	} else {
		err = cs.HCA.EstablishRD(cs.now, c.conn, e.eec, q.QP)
		cs.learnAttr(q)
	}
	cs.learnAttr(e)
	cs.settle()
	if err != nil {
		cs.refused(err)
	}
	return err
}

// contextOf returns the EE context that was moved for a channel.
func (r *registry) contextOf(k *cm.Channel) (*pair, bool) {
	if k != nil {
		for _, e := range r.eecs {
			if any(e.eec) == k.Consumer {
				return e, true
			}
		}
	}
	return nil, false
}

// numbersRD fills in the fields of a peer's REQ that only RD uses.
func (c *connection) numbersRD(from side, m *mad.REQ) {
	if !c.rd {
		return
	}
	m.Transport = mad.TransportRD
	if from == peer {
		m.LocalEECN, m.LocalQKey = uint32(c.peer.eecn), peerQKey
	}
}

// eecField is the number of an EE context, or its name.
func eecField[M any](name string, at func(*M) *uint32) field[M] {
	return field[M]{
		name: name, shown: plainly,
		set: func(w *world, m *M, s string) error { return setNumber(w, at(m), s, 24, number) },
		show: func(w *world, m *M) string {
			if e := w.eecOf(ib.EECN(*at(m))); e != nil {
				return e.name
			}
			return fmt.Sprintf("%#x", *at(m))
		},
	}
}

// endField is the field of DREQ and LAP that names the receiver's end: the number
// of a queue pair or of an EE context.
func endField[M any](name string, at func(*M) *ib.QPN) field[M] {
	f := qpField(name, plainly, at)
	show := f.show
	f.show = func(w *world, m *M) string {
		if e := w.eecOf(ib.EECN(*at(m))); e != nil {
			return e.name
		}
		return show(w, m)
	}
	return f
}

// showChannel shows the channel of a connection: channel CONN.
func (cs *connections) showChannel(a *args) error {
	c, err := named[*connection](&cs.registry, a, "a connection")
	if err != nil {
		return err
	}
	if c.conn == nil || c.conn.Channel() == nil {
		cs.say("%s has no channel", c.name)
		return nil
	}
	h := c.conn.Channel()
	cs.say("channel of %s: %v, EE contexts %#x and %#x, users %d", c.name, h.State(), uint32(h.Local()), uint32(h.Remote()), h.Users())
	return nil
}
