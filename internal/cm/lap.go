package cm

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/mad"
)

// stepLAP is step for what the sub-state of Established decides (C10).
func (c *Conn) stepLAP(on Input, x *stimulus) error {
	e := lapMachine[c.lap][on]
	if on == MsgLAP && e.duplicate && x.ev.LAP.Alternate != c.asked {
		e = lapMachine[LAPIdle][on] // another one: the peer has given up the last
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
	if err := c.performLAP(e.do, x); err != nil {
		return err
	}
	c.lap = e.next
	c.raise(x, e.raise)
	return nil
}

func (c *Conn) performLAP(a lapAction, x *stimulus) error {
	switch a {
	case lapNone:
	case lapSend:
		return c.sendLAP(x)
	case lapAnswer:
		return c.sendAPR(x)
	case lapMRA:
		return c.sendMRA(x)
	case lapAgainMRA:
		c.resend(x, mad.AttrMRA)
	case lapLoad:
		c.stopRetry()
		if x.ev.APR.Status == mad.APRAccepted {
			c.alt = c.asked
		}
	case lapNote:
		c.asked, c.lapTID = x.ev.LAP.Alternate, x.tid
	case lapExtendTimer:
		c.extendTimer(x)
	case lapRetransmit:
		c.retransmit(x)
	case lapGiveUp:
		c.stopRetry()
	default:
		panic(fmt.Sprintf("cm: no LAP action %d", a))
	}
	return nil
}

func (c *Conn) sendLAP(x *stimulus) error {
	if c.role != Active {
		return fmt.Errorf("%v: only the active side loads an alternate path: %w", CallLAP, ib.EINVAL)
	}
	path := *x.lap
	path.fill()
	if err := c.m.check(&path); err != nil {
		return err
	}
	msg := mad.LAP{
		LocalCommID: c.localID, RemoteCommID: c.remoteID, RemoteQPN: c.ep.remoteQPN,
		RemoteResponseTimeout: c.retry.response, Alternate: path.wire(mad.AckTimeout(c.m.cfg.AckDelay, path.Lifetime)),
	}
	if err := private(msg.PrivateData[:], x.private, "LAP"); err != nil {
		return err
	}
	c.asked = msg.Alternate
	c.request(x, build(mad.AttrLAP, c.m.cfg.TID(c.localID), &msg))
	return nil
}

func (c *Conn) sendAPR(x *stimulus) error {
	p := x.apr
	msg := mad.APR{LocalCommID: c.localID, RemoteCommID: c.remoteID, Status: p.Status}
	var err error
	if msg.InfoLength, err = information(&msg.Info, p.Info, "APR"); err != nil {
		return err
	}
	if err = private(msg.PrivateData[:], p.PrivateData, "APR"); err != nil {
		return err
	}
	if p.Status == mad.APRAccepted {
		c.alt = c.asked
	}
	c.reply(x, build(mad.AttrAPR, c.lapTID, &msg))
	return nil
}
