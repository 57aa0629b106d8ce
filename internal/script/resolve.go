package script

import (
	"cmp"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/mad"
)

// resolve asks the peer for the queue pair of a service: sidr CONN SERVICE.
func (cs *connections) resolve(c *connection, a *args) error {
	var err error
	p := cm.SIDRREQParams{
		Path: cs.pathTo(a), ResponseTimeout: uint8(a.small("timeout", 0, 8)), MaxRetries: uint8(a.small("cm_retries", 0, 8)),
		PrivateData: a.data("private"),
	}
	p.Service, err = parseService(a.word("a service"))
	if err = cmp.Or(a.err, err); err != nil {
		return err
	}
	c.service = p.Service
	return cs.outcome(c.conn.SendSIDRREQ(cs.now, &p))
}

// resolved answers the peer's SIDR_REQ: sidr_answer CONN [STATUS].
func (cs *connections) resolved(c *connection, a *args) error {
	var err error
	p := cm.SIDRREPParams{Info: a.data("info"), PrivateData: a.data("private")}
	if len(a.words) > 0 {
		p.Status, err = parseEnum(a.word("a status"), mad.SIDRUnsupportedVersion)
	}
	if p.Status == mad.SIDRValid {
		p.QPN = ib.QPN(a.num("qp", uint64(c.qpn()), number))
		p.QKey = ib.QKey(a.small("qkey", qkey, 32))
	}
	if err = cmp.Or(err, a.err); err != nil {
		return err
	}
	return cs.outcome(c.conn.SendSIDRREP(cs.now, &p))
}
