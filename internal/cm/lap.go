package cm

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/mad"
)

// stepLAP is step for inputs that depend on the sub-state of Established (C10).
func (x *stimulus) stepLAP(c *Conn, on Input) error {
	e := lapMachine[c.lap][on]
	if on == MsgLAP && e.duplicate && x.ev.LAP.Alternate != c.asked {
		e = lapMachine[LAPIdle][on] // another LAP: the peer has given up the last one
	}
	switch {
	case !e.defined && on < firstMsg:
		return fmt.Errorf("%v: not in state %v: %w", on, c.lap, ib.EINVAL)
	case !e.defined, on == MsgLAP && c.role == Active:
		c.m.counters.Unexpected[on]++
		return nil
	case e.duplicate:
		c.m.counters.Duplicates[on]++
	}
	if err := x.performLAP(c, e.do); err != nil {
		return err
	}
	c.lap = e.next
	x.raise(c, e.raise)
	return nil
}

func (x *stimulus) performLAP(c *Conn, a lapAction) error {
	switch a {
	case lapNone:
	case lapSend:
		return x.sendLAP(c)
	case lapAnswer:
		return x.sendAPR(c)
	case lapMRA:
		return x.sendMRA(c)
	case lapAgainMRA:
		x.resend(c, mad.AttrMRA)
	case lapLoad:
		c.stopRetry()
		if x.ev.APR.Status == mad.APRAccepted {
			c.alt = c.asked
		}
	case lapNote:
		c.asked, c.lapTID = x.ev.LAP.Alternate, x.tid
	case lapExtendTimer:
		x.extendTimer(c)
	case lapRetransmit:
		x.retransmit(c)
	case lapGiveUp:
		c.stopRetry()
	default:
		panic(fmt.Sprintf("cm: no LAP action %d", a))
	}
	return nil
}

func (x *stimulus) sendLAP(c *Conn) error {
	if c.role != Active {
		return fmt.Errorf("%v: only the active side loads an alternate path: %w", CallLAP, ib.EINVAL)
	}
	path := *x.lap
	path.fill()
	if err := c.m.cfg.check(&path); err != nil {
		return err
	}
	_, remote := numbersOf(c)
	msg := mad.LAP{
		LocalCommID: c.localID, RemoteCommID: c.remoteID, RemoteQPN: remote,
		RemoteResponseTimeout: c.retry.response, Alternate: path.wire(mad.AckTimeout(c.m.cfg.AckDelay, path.Lifetime)),
	}
	if err := private(msg.PrivateData[:], x.private, "LAP"); err != nil {
		return err
	}
	c.asked = msg.Alternate
	d := newMAD(mad.AttrLAP, c.m.cfg.TID(c.localID))
	msg.Put(d)
	x.request(c, d)
	return nil
}

func (x *stimulus) sendAPR(c *Conn) error {
	p := x.apr
	msg := mad.APR{LocalCommID: c.localID, RemoteCommID: c.remoteID, Status: p.Status}
	var err error
	if msg.InfoLength, err = reasons(&msg.Info, msg.PrivateData[:], p.Info, p.PrivateData, "APR"); err != nil {
		return err
	}
	if p.Status == mad.APRAccepted {
		c.alt = c.asked
	}
	d := newMAD(mad.AttrAPR, c.lapTID)
	msg.Put(d)
	x.reply(c, d)
	return nil
}
