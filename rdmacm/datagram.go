package rdmacm

import (
	"errors"
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/verbs"
)

// Channel is this side's end of a reliable datagram channel, over which IDs of port
// space RD are connected. The first connection between two queue pairs sets it up,
// with an EE context on either side. Later connections of either side may join it with
// ConnParam.Channel. The channel ends with its last connection, and its EE context
// moves to ERR; the EE context is destroyed with the last ID that was connected over
// it.
//
// Send requests name the EE context, and the number and Q_Key of the peer's queue
// pair, which the events of the connection report:
//
//	verbs.SendWR{EEC: id.Channel().EEC(), RemoteQPN: e.Param.QPN, RemoteQKey: e.Param.QKey, ...}
type Channel struct {
	dev    *adapter
	eec    *verbs.EEC
	engine *qp.EEC
	conn   *cm.Channel // adapter's thread only; nil before the first connection is requested or accepted
	ids    int         // IDs that have the channel; guarded by m.mu
}

// EEC returns the EE context of the channel. It belongs to the channel: a program
// that moves or destroys it ends the channel for all.
func (k *Channel) EEC() *verbs.EEC {
	if k == nil {
		return nil
	}
	return k.eec
}

// Users returns how many connections use the channel, 0 once it has ended.
func (k *Channel) Users() (n int) {
	if k == nil {
		return 0
	}
	// If the adapter is gone, so are the connections.
	_ = k.dev.do(func(clock.Instant) error {
		if k.conn != nil {
			n = k.conn.Users()
		}
		return nil
	})
	return n
}

// ended is the value of Channel.ids after its last ID has gone.
const ended = -1

// Channel returns the channel of an ID of RD: from Connect or Accept on, or from
// CONNECT_REQUEST on if the peer joins one; nil before.
func (id *ID) Channel() *Channel {
	if id == nil {
		return nil
	}
	id.call.Lock()
	defer id.call.Unlock()
	return id.channel
}

// RDD returns the default reliable datagram domain of the ID's adapter, which contains
// all channels and the RD queue pairs of CreateQP. The first call allocates it, and
// Manager.Close deallocates it. EINVAL before the ID has an adapter; errors of
// AllocRDD.
func (id *ID) RDD() (*verbs.RDD, error) {
	dev, _, _ := id.place()
	if dev == nil {
		return nil, fmt.Errorf("default reliable datagram domain: the ID has no adapter yet: %w", ib.EINVAL)
	}
	return dev.defaultRDD()
}

// openChannel gives an ID of RD its channel: exists, or a new one if it is nil. call is
// held.
func (id *ID) openChannel(exists *Channel) error {
	if exists != nil {
		if exists.dev != id.dev {
			return fmt.Errorf("the channel is of another adapter: %w", ib.EINVAL)
		}
		return id.hold(exists)
	}
	rdd, err := id.dev.defaultRDD()
	if err != nil {
		return err
	}
	eec, err := rdd.CreateEEC()
	if err != nil {
		return err
	}
	k := &Channel{dev: id.dev, eec: eec, engine: device.EECOf(eec)}
	err = id.do(func(clock.Instant) error {
		id.dev.channels[k.engine] = k
		return nil
	})
	return errors.Join(err, id.hold(k))
}

// hold adds an ID to a channel. ENOTCONN if the channel's last ID has gone.
func (id *ID) hold(k *Channel) error {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	if k.ids == ended {
		return fmt.Errorf("the channel has ended: connect without it: %w", ib.ENOTCONN)
	}
	k.ids++
	id.channel = k
	return nil
}

// closeChannel removes the ID, whose connection is over, from its channel. The last ID
// destroys the EE context; if that fails, closeChannel returns the error and nothing
// has changed. call is held.
func (id *ID) closeChannel() error {
	k := id.channel
	if k == nil {
		return nil
	}
	if id.m.letGo(k) {
		err := k.eec.Destroy()
		if err != nil && device.EECOf(k.eec) != nil && !k.dev.isGone() && !errors.Is(err, verbs.ErrInvalidHCA) {
			id.m.mu.Lock()
			k.ids = 1
			id.m.mu.Unlock()
			return err
		}
		// If the adapter is gone, so are its channels.
		_ = k.dev.do(func(clock.Instant) error {
			delete(k.dev.channels, k.engine)
			return nil
		})
	}
	id.channel = nil
	return nil
}

// letGo removes an ID from a channel. It reports whether that was the last: then no
// other can be added.
func (m *Manager) letGo(k *Channel) (last bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k.ids--; k.ids == 0 {
		k.ids = ended
	}
	return k.ids == ended
}

// joined gives the ID of a request its channel, if the peer joins one, and returns
// false if no ID of the Manager has that channel. It runs on the adapter's thread,
// before other goroutines can see the ID.
func (id *ID) joined() bool {
	if id.typ != ib.RD || !id.conn.Channel().JoinedBy(id.conn) {
		return true
	}
	e, _ := id.conn.Channel().Consumer.(*qp.EEC)
	k := id.dev.channels[e]
	return k != nil && id.hold(k) == nil
}

// left removes the ID of a refused request from the channel that it would have joined.
// Other IDs are connected over the channel. It runs on the adapter's thread.
func (id *ID) left() {
	if id.channel != nil {
		id.m.letGo(id.channel)
		id.channel = nil
	}
}

// askRD completes a REQ with the channel of the ID.
func (id *ID) askRD(r *cm.REQParams, o *ConnParam) error {
	r.Transport, r.QKey = mad.TransportRD, o.QKey
	switch k := id.channel; {
	case device.EECOf(k.eec) == nil:
		return errNoEEC
	case o.Channel == nil:
		r.EECN = k.eec.EECN()
	case k.conn == nil:
		return fmt.Errorf("the channel is not up yet: wait for ESTABLISHED: %w", ib.ENOTCONN)
	default:
		r.Channel = k.conn
	}
	return nil
}

// connectRD is connect for IDs of RD. It creates the channel first, which needs a
// separate call on the adapter's thread. call is held.
func (id *ID) connectRD(p *ConnParam) error {
	if err := id.in(stateRouteResolved); err != nil {
		return err
	}
	var exists *Channel
	if p != nil {
		exists = p.Channel
	}
	err := id.openChannel(exists)
	if err == nil {
		err = id.do(func(now clock.Instant) error { return id.connect(now, p) })
	}
	if err != nil {
		err = errors.Join(err, id.closeChannel())
	}
	return err
}

// acceptRD is accept for IDs of RD. call is held.
func (id *ID) acceptRD(p *ConnParam) error {
	opens := false
	err := id.do(func(clock.Instant) error {
		if !id.asked() {
			return errNotAsked
		}
		opens = !id.conn.Channel().JoinedBy(id.conn) && id.channel == nil
		return nil
	})
	if err == nil && opens {
		if err = id.openChannel(nil); err != nil {
			return errors.Join(err, id.do(func(now clock.Instant) error {
				return id.reject(now, mad.RejNoEEC, nil)
			}))
		}
	}
	if err != nil {
		return err
	}
	return id.do(func(now clock.Instant) error { return id.accept(now, p) })
}

// errNoEEC is returned when the program has destroyed the EE context of a channel.
var errNoEEC = fmt.Errorf("the channel has lost its EE context: connect over a new one: %w", ib.ENOTCONN)

// readyRD moves the EE context of the channel to RTS, and the QP of CreateQP.
func (id *ID) readyRD(now clock.Instant) error {
	e := device.EECOf(id.channel.eec)
	if e == nil {
		return errNoEEC
	}
	q := id.qp.engine()
	if id.qp != nil && q == nil {
		return errNoQP
	}
	return id.dev.hca.EstablishRD(now, id.conn, e, q)
}

// hint returns advice for a REJ whose reason alone does not help.
func (id *ID) hint(r mad.RejReason) string {
	switch {
	case id.typ != ib.RD && r == mad.RejInvalidServiceID:
		return "nothing listens on that port there, in port space " + id.ps.String()
	case id.typ != ib.RD:
	case r == mad.RejInvalidServiceID || r == mad.RejInvalidTransport:
		return "nobody there takes reliable datagrams; Linux's rdma_cm never does: connect in port space TCP"
	case r == mad.RejRDCNotExist:
		return "the peer has ended the channel: connect over a new one"
	}
	return ""
}
