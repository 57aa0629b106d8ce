package script

import (
	"cmp"
	"fmt"

	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/mad"
)

// loadPath asks the peer to load an alternate path: lap CONN.
func (cs *connections) loadPath(c *connection, a *args) error {
	p, private := cs.pathTo(a), a.data("private")
	if a.err != nil {
		return a.err
	}
	return cs.outcome(c.conn.SendLAP(cs.now, &p, private))
}

// answerPath answers the peer's LAP: apr CONN [STATUS].
func (cs *connections) answerPath(c *connection, a *args) error {
	var err error
	p := cm.APRParams{Info: a.data("info"), PrivateData: a.data("private")}
	if len(a.words) > 0 {
		p.Status, err = parseEnum(a.word("a status"), mad.APRInvalidSL)
	}
	if err = cmp.Or(err, a.err); err != nil {
		return err
	}
	return cs.outcome(c.conn.SendAPR(cs.now, &p))
}

// load puts the alternate path into the connection's queue pair, or the EE context of its channel,
// and arms it: load CONN. With answer, after the peer's LAP, it sends an APR with the outcome.
func (cs *connections) load(c *connection, a *args) error {
	answer := a.flag("answer")
	if a.err != nil {
		return a.err
	}
	var q *qp.QP
	if _, ok := cs.contextOf(c.conn.Channel()); c.qp != nil {
		q = c.qp.QP
	} else if !ok {
		return fmt.Errorf("%s has neither queue pair nor EE context", c.name)
	}
	if answer {
		p := cm.APRParams{Status: cs.HCA.AnswerLAP(cs.now, c.conn, q)}
		return cs.outcome(c.conn.SendAPR(cs.now, &p))
	}
	return cs.outcome(cs.HCA.LoadAlternate(cs.now, c.conn, q))
}

// alternate shows the alternate path: alternate CONN.
func (cs *connections) alternate(c *connection, a *args) error {
	alt := c.conn.Alternate()
	if alt == (mad.Path{}) {
		cs.say("%s has no alternate path", c.name)
		return nil
	}
	cs.say("alternate path of %s: %v > %v ack_timeout=%d", c.name, alt.LocalGID.Addr(), alt.RemoteGID.Addr(), alt.LocalAckTimeout)
	return nil
}
