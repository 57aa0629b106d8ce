package broker

import (
	"errors"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/mad"
)

// disconnectRetry returns the retries of a disconnect for a member that has ended: all are
// within a second.
func disconnectRetry() gsi.Retry { return gsi.Retry{Timeout: 300 * time.Millisecond, Retries: 2} }

// disconnecting is a disconnect that is repeated until the peer answers.
type disconnecting struct {
	request *gsi.Transaction
	peer    remoteKey
}

// disconnect tells the peer of a connection that the member has ended. If the peer has sent
// a DREQ, it gets a DREP; if it knows our ID, a DREQ, as from a program that disconnects.
// Otherwise it waits for the answer to its REQ and gets a REJ, as from a program that
// destroys the ID of a request.
func (e *engine) disconnect(now clock.Instant, c *connection) error {
	var m mad.MAD
	if c.ending.asked {
		m.PutHeader(mad.CMHeader(mad.AttrDREP, c.ending.tid))
		(&mad.DREP{LocalCommID: c.localID, RemoteCommID: c.key.id}).Put(&m)
		return e.agent.Send(now, c.peer, &m)
	}
	if c.localID == 0 {
		m.PutHeader(mad.CMHeader(mad.AttrREJ, e.agent.TID(c.key.id)))
		(&mad.REJ{RemoteCommID: c.key.id, Message: mad.WhichREQ, Reason: mad.RejConsumer}).Put(&m)
		return e.agent.Send(now, c.peer, &m)
	}
	m.PutHeader(mad.CMHeader(mad.AttrDREQ, e.agent.TID(c.localID)))
	(&mad.DREQ{LocalCommID: c.localID, RemoteCommID: c.key.id, RemoteQPN: c.qpn}).Put(&m)
	request, err := e.agent.Request(now, c.peer, &m, disconnectRetry(), func(clock.Instant, *gsi.Received, error) {
		delete(e.disconnecting, c.localID)
	})
	switch {
	case errors.Is(err, gsi.ErrTooManyTransactions): // then send it only once
		return e.agent.Send(now, c.peer, &m)
	case err != nil:
		return err
	}
	e.disconnecting[c.localID] = &disconnecting{request, c.key}
	return nil
}

// heard ends the disconnect of a peer that has answered with a DREP.
func (e *engine) heard(now clock.Instant, m *mad.MAD, from *gsi.Address) {
	if h := m.Header(); h.AttrID != mad.AttrDREP {
		return
	}
	id, to := ids(m)
	if p := e.disconnecting[to]; p != nil && p.peer == (remoteKey{id, from.Remote}) {
		p.request.Cancel(now)
	}
}
