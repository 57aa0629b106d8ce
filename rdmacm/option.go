package rdmacm

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/mad"
)

// set runs f, which changes the settings, if the ID's state is one of ok; nil
// is any.
func (id *ID) set(what string, ok func(idState) bool, f func()) error {
	return id.runOn(what, func(clock.Instant) error {
		if ok != nil && !ok(id.state) {
			return fmt.Errorf("an ID of %v in state %q: %w", id.typ, id.state, ib.EINVAL)
		}
		id.m.mu.Lock()
		defer id.m.mu.Unlock()
		f()
		return nil
	})
}

// SetTOS sets the IP type of service, or traffic class, of what the ID sends:
// of data and of the CM's messages, in both directions. It counts if it is set
// before ResolveRoute.
func (id *ID) SetTOS(tos uint8) error {
	return id.set("set TOS", nil, func() { id.settings.tos = tos })
}

// SetReuseAddr lets several IDs share an address and a port if each has it set. An ID without
// other IDs on its port can listen, and shares the port no more. EINVAL for a listener, and
// when switched off for an ID that is not idle any more.
func (id *ID) SetReuseAddr(on bool) error {
	may := func(s idState) bool { return s == stateIdle || on && s != stateListen }
	return id.set("set REUSEADDR", may, func() { id.settings.reuse = on })
}

// SetAFOnly says whether an ID that is bound to an unspecified address is of that
// address family only: it shares its port with one of the other family that is too,
// and does not take requests of the other. That is so by default with IPv4, and not
// with IPv6. EINVAL unless the ID is idle or bound.
func (id *ID) SetAFOnly(on bool) error {
	return id.set("set AFONLY", func(s idState) bool { return s <= stateBound }, func() { id.settings.afSet, id.settings.afOnly = true, on })
}

// SetAckTimeout sets the local ACK timeout of the ID's QP, of RD of a new
// channel's EE context, a code of 5 bits for
// 4.096 µs · 2^code; 0 is no timeout: what is lost is never sent again. Without it the
// timeout follows from the path. Unless it is 0, before ResolveRoute it also makes the
// packet lifetime of the path half of that, from which the waits of the CM
// follow. EINVAL above 31 and for UD.
func (id *ID) SetAckTimeout(code uint8) error {
	if code > mad.MaxTimeout {
		return fmt.Errorf("set ACK timeout: code %d is above %d: %w", code, mad.MaxTimeout, ib.EINVAL)
	}
	acks := func(idState) bool { return id.typ == ib.RC || id.typ == ib.RD }
	return id.set("set ACK timeout", acks, func() { id.settings.ackTimeout, id.settings.ackSet = code, true })
}

// chooseTimeout hands what SetAckTimeout said to a connection.
func (s *settings) chooseTimeout(c *cm.Conn) {
	if s.ackSet {
		c.SetAckTimeout(s.ackTimeout)
	}
}

// SetResponseTimeout sets how long the peer has to answer a message of the CM,
// as a code of 5 bits, and how often a message is repeated; 0 is the default,
// that of Linux: 20, which is 4.3 s, and 15. It counts if it is set before
// Connect. The waits of a passive side follow from the peer's. EINVAL for a
// code above 31 or more than 15 repetitions.
func (id *ID) SetResponseTimeout(code, retries uint8) error {
	if code > mad.MaxTimeout || retries > 15 {
		return fmt.Errorf("set response timeout: code %d (0 to 31), %d repetitions (0 to 15): %w", code, retries, ib.EINVAL)
	}
	return id.set("set response timeout", nil, func() { id.settings.cmTimeout, id.settings.cmRetries = code, retries })
}

// SetQPType chooses the service of the ID's connections: RC, which is the
// default, or UC; of IB also UD, for what an ID of UDP does. EINVAL for another one, for
// IDs of UDP and RD, and unless the ID is idle.
func (id *ID) SetQPType(t ib.QPType) error {
	ps := id.PortSpace()
	if ud := t == ib.UD && ps == IB; t != ib.RC && t != ib.UC && !ud || ps == UDP || ps == IPoIB || ps == RD {
		return fmt.Errorf("set QP type: %v in port space %v: %w", t, ps, ib.EINVAL)
	}
	return id.set("set QP type", func(s idState) bool { return s == stateIdle }, func() { id.typ = t })
}
