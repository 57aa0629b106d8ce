package script

import (
	"fmt"

	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/mad"
)

// loadPath asks the peer to load an alternate path: lap CONN.
func (w *world) loadPath(a *args) error {
	c, err := w.caller(a)
	if err != nil {
		return err
	}
	p, private := w.pathTo(a), a.data("private")
	if a.err != nil {
		return a.err
	}
	return w.outcome(c.conn.SendLAP(w.now, &p, private))
}

// answerPath answers the peer's LAP: apr CONN [STATUS].
func (w *world) answerPath(a *args) error {
	c, err := w.caller(a)
	if err != nil {
		return err
	}
	p := cm.APRParams{Info: a.data("info"), PrivateData: a.data("private")}
	if len(a.words) > 0 {
		p.Status, err = parseEnum(a.word("a status"), mad.APRInvalidSL)
	}
	if err = firstOf(err, a.err); err != nil {
		return err
	}
	return w.outcome(c.conn.SendAPR(w.now, &p))
}

// load puts the alternate path into the connection's queue pair, or the EE context of its channel,
// and arms it: load CONN. With answer, after the peer's LAP, it sends an APR with the outcome.
func (w *world) load(a *args) error {
	c, err := w.caller(a)
	answer := a.flag("answer")
	if err = firstOf(err, a.err); err != nil {
		return err
	}
	var q *qp.QP
	if _, ok := w.contextOf(c.conn.Channel()); c.qp != nil {
		q = c.qp.QP
	} else if !ok {
		return fmt.Errorf("%s has neither queue pair nor EE context", c.name)
	}
	if answer {
		p := cm.APRParams{Status: w.hca.AnswerLAP(w.now, c.conn, q)}
		return w.outcome(c.conn.SendAPR(w.now, &p))
	}
	return w.outcome(w.hca.LoadAlternate(w.now, c.conn, q))
}

// alternate shows the alternate path: alternate CONN.
func (w *world) alternate(a *args) error {
	c, err := w.caller(a)
	if err != nil {
		return err
	}
	alt := c.conn.Alternate()
	if alt == (mad.Path{}) {
		w.say("%s has no alternate path", c.name)
		return nil
	}
	w.say("alternate path of %s: %v > %v ack_timeout=%d", c.name, alt.LocalGID.Addr(), alt.RemoteGID.Addr(), alt.LocalAckTimeout)
	return nil
}
