package rdmacm

import (
	"cmp"
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
	conn   *cm.Channel // control plane only; nil before the first connection is requested or accepted
	ids    int         // IDs that have the channel, at first one; no more once it is 0; guarded by m.mu
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

// Channel returns the channel of an ID of RD: from Connect or Accept on, or from
// CONNECT_REQUEST on if the peer joins one; nil before.
func (id *ID) Channel() *Channel {
	if id == nil {
		return nil
	}
	id.call.Lock()
	defer id.call.Unlock()
	return id.link.channel
}

// RDD returns the default reliable datagram domain of the ID's adapter, which contains
// all channels and the RD queue pairs of CreateQP. The first call allocates it, and
// Manager.Close deallocates it. EINVAL before the ID has an adapter; errors of
// AllocRDD.
func (id *ID) RDD() (*verbs.RDD, error) {
	dev := id.place().dev
	if dev == nil {
		return nil, fmt.Errorf("default reliable datagram domain: the ID has no adapter yet: %w", ib.EINVAL)
	}
	return dev.defaultRDD()
}

// openChannel returns a channel for an ID: exists, or a new one if it is nil.
func (d *adapter) openChannel(exists *Channel) (*Channel, error) {
	if exists != nil {
		if exists.dev != d {
			return nil, fmt.Errorf("the channel is of another adapter: %w", ib.EINVAL)
		}
		return exists, exists.hold()
	}
	rdd, err := d.defaultRDD()
	if err != nil {
		return nil, err
	}
	eec, err := rdd.CreateEEC()
	if err != nil {
		return nil, err
	}
	k := &Channel{dev: d, eec: eec, engine: device.EECOf(eec), ids: 1}
	return k, d.do(func(clock.Instant) error {
		d.channels[k.engine] = k
		return nil
	})
}

// hold adds an ID to a channel. ENOTCONN if the channel's last ID has gone.
func (k *Channel) hold() error {
	k.dev.m.mu.Lock()
	defer k.dev.m.mu.Unlock()
	if k.ids == 0 {
		return fmt.Errorf("the channel has ended: connect without it: %w", ib.ENOTCONN)
	}
	k.ids++
	return nil
}

// letGo removes an ID from a channel, and reports whether that was the last.
func (k *Channel) letGo() (last bool) {
	k.dev.m.mu.Lock()
	defer k.dev.m.mu.Unlock()
	k.ids--
	return k.ids == 0
}

// leave removes an ID, whose connection is over, from its channel. The last ID destroys
// the EE context; if that fails, leave returns the error and nothing has changed.
func (k *Channel) leave() error {
	if !k.letGo() {
		return nil
	}
	err := k.eec.Destroy()
	if err != nil && device.EECOf(k.eec) != nil && !k.dev.isGone() && !errors.Is(err, verbs.ErrInvalidHCA) {
		k.dev.m.mu.Lock()
		k.ids = 1
		k.dev.m.mu.Unlock()
		return err
	}
	// If the adapter is gone, so are its channels.
	_ = k.dev.do(func(clock.Instant) error {
		delete(k.dev.channels, k.engine)
		return nil
	})
	return nil
}

// leaveChannel removes the link, whose connection is over, from its channel, if it has
// one. ID.call is held.
func (l *link) leaveChannel() error {
	if l.channel == nil {
		return nil
	}
	if err := l.channel.leave(); err != nil {
		return err
	}
	l.channel = nil // not in the control plane, which reads it only while there is a connection
	return nil
}

// joined gives the ID of a request its channel, if the peer joins one, and returns
// false if no ID of the Manager has that channel. It runs in the control plane,
// before other goroutines can see the ID.
func (l *link) joined() bool {
	if l.at.typ != ib.RD || !l.conn.Channel().JoinedBy(l.conn) {
		return true
	}
	e, _ := l.conn.Channel().Consumer.(*qp.EEC)
	k := l.at.dev.channels[e]
	if k == nil || k.hold() != nil {
		return false
	}
	l.channel = k
	return true
}

// left removes the ID of a refused request from the channel that it would have joined.
// Other IDs are connected over the channel. It runs in the control plane.
func (l *link) left() {
	if l.channel != nil {
		l.channel.letGo()
		l.channel = nil
	}
}

// askRD completes a REQ with the channel of the ID.
func (l *link) askRD(r *cm.REQParams, o *ConnParam) error {
	r.Transport, r.QKey = mad.TransportRD, o.QKey
	switch k := l.channel; {
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
// separate call of the control plane. call is held.
func (id *ID) connectRD(p *ConnParam) error {
	if err := id.link.in(stateRouteResolved); err != nil {
		return err
	}
	k, err := id.at.dev.openChannel(cmp.Or(p, &ConnParam{}).Channel)
	if err != nil {
		return err
	}
	err = id.at.do(func(now clock.Instant) error {
		id.link.channel = k
		return id.link.connect(now, p)
	})
	if err != nil {
		err = errors.Join(err, id.link.leaveChannel())
	}
	return err
}

// acceptRD is accept for IDs of RD. call is held.
func (id *ID) acceptRD(p *ConnParam) error {
	var k *Channel
	opens := false
	err := id.at.do(func(clock.Instant) error {
		if !id.link.asked() {
			return errNotAsked
		}
		opens = id.link.channel == nil
		return nil
	})
	if err != nil {
		return err
	}
	if opens {
		if k, err = id.at.dev.openChannel(nil); err != nil {
			return errors.Join(err, id.at.do(func(now clock.Instant) error { return id.link.reject(now, mad.RejNoEEC, nil) }))
		}
	}
	return id.at.do(func(now clock.Instant) error {
		if opens {
			id.link.channel = k
		}
		return id.link.accept(now, p)
	})
}

// errNoEEC is returned when the program has destroyed the EE context of a channel.
var errNoEEC = fmt.Errorf("the channel has lost its EE context: connect over a new one: %w", ib.ENOTCONN)

// readyRD moves the EE context of the channel to RTS, and the QP of CreateQP.
func (l *link) readyRD(now clock.Instant) error {
	e := device.EECOf(l.channel.eec)
	if e == nil {
		return errNoEEC
	}
	q := l.qp.engine()
	if l.qp != nil && q == nil {
		return errNoQP
	}
	l.countTimers()
	return l.at.dev.hca.EstablishRD(now, l.conn, e, q)
}

// hint returns advice for a REJ whose reason alone does not help.
func (l *link) hint(r mad.RejReason) string {
	switch {
	case l.at.typ != ib.RD && r == mad.RejInvalidServiceID:
		return "nothing listens on that port there, in port space " + l.at.ps.String()
	case l.at.typ != ib.RD:
	case r == mad.RejInvalidServiceID || r == mad.RejInvalidTransport:
		return "no listener there accepts reliable datagrams, and Linux's rdma_cm has none: connect in port space TCP"
	case r == mad.RejRDCNotExist:
		return "the peer has ended the channel: connect over a new one"
	}
	return ""
}
