package cm

import (
	"cmp"
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/mad"
)

func (x *stimulus) sendSIDRREQ(c *Conn) error {
	p, path := x.sidrReq, x.sidrReq.Path
	path.fill()
	path.PKey = cmp.Or(path.PKey, c.m.cfg.PKeys[0])
	wait, again := cmp.Or(p.ResponseTimeout, DefaultResponseTimeout), cmp.Or(p.MaxRetries, DefaultMaxRetries)
	msg := mad.SIDRREQ{PKey: path.PKey, ServiceID: p.Service}
	if err := private(msg.PrivateData[:], p.PrivateData, "SIDR_REQ"); err != nil {
		return err
	}
	if wait > mad.MaxTimeout || again > 15 {
		return fmt.Errorf("response timeout %d (1 to 31), CM retries %d (1 to 15): %w", wait, again, ib.EINVAL)
	}
	if err := c.m.cfg.check(&path); err != nil {
		return err
	}
	if err := c.begin(x.now); err != nil {
		return err
	}
	c.role, c.service, c.path, c.to = Active, p.Service, path, path.address()
	learnPort(c, p.PrivateData)
	c.retry = retry{max: again, interval: mad.Timeout(wait)}
	msg.RequestID = c.localID
	d := newMAD(mad.AttrSIDRREQ, c.tid)
	msg.Put(d)
	x.request(c, d)
	return nil
}

func (x *stimulus) sendSIDRREP(c *Conn, p *SIDRREPParams) error {
	msg := mad.SIDRREP{RequestID: c.remoteID, Status: p.Status, QPN: p.QPN, ServiceID: c.service, QKey: p.QKey}
	var err error
	if msg.InfoLength, err = reasons(&msg.Info, msg.PrivateData[:], p.Info, p.PrivateData, "SIDR_REP"); err != nil {
		return err
	}
	if p.Status != mad.SIDRValid {
		traceChange(x.now, c, trace.Rejected, p.Status)
	}
	d := newMAD(mad.AttrSIDRREP, c.tid)
	msg.Put(d)
	x.reply(c, d)
	return nil
}
