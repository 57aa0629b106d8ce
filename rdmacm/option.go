package rdmacm

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/mad"
)

// settings holds the values of SetTOS and other setters.
type settings struct {
	tos            uint8
	ackTimeout     uint8 // 5-bit code
	ackSet         bool  // ackTimeout was set by SetAckTimeout; otherwise the path's applies
	cmTimeout      uint8 // 5-bit code; 0: the default
	cmRetries      uint8 // 0: the default
	altPath        AltPathPolicy
	autoDisconnect bool
}

// set runs f, which changes the settings, if ok allows the ID's state; a nil ok allows
// any.
func (id *ID) set(what string, ok func(idState) bool, f func()) error {
	return id.runOn(what, func(clock.Instant) error {
		if ok != nil && !ok(id.link.state) {
			return fmt.Errorf("an ID of %v in state %q: %w", id.at.typ, id.link.state, ib.EINVAL)
		}
		id.m.mu.Lock()
		defer id.m.mu.Unlock()
		f()
		return nil
	})
}

// SetTOS sets the IP type of service, or traffic class, of the connection: of data and
// of CM messages, in both directions. It must be called before ResolveRoute.
func (id *ID) SetTOS(tos uint8) error {
	return id.set("set TOS", nil, func() { id.link.settings.tos = tos })
}

// SetReuseAddr lets several IDs share an address and a port if it is set for each. Only an ID
// that is alone on its port can listen, and then it no longer shares the port. EINVAL for a
// listener, and when switched off for an ID that is no longer idle.
func (id *ID) SetReuseAddr(on bool) error {
	may := func(s idState) bool { return s == stateIdle || on && s != stateListen }
	return id.set("set REUSEADDR", may, func() { id.at.reuse = on })
}

// SetAFOnly restricts an ID that is bound to an unspecified address to its address
// family: it takes no requests of the other family, and an ID that is restricted to the
// other family can have the same port. The default is true for IPv4 and false for IPv6.
// EINVAL unless the ID is idle or bound.
func (id *ID) SetAFOnly(on bool) error {
	return id.set("set AFONLY", func(s idState) bool { return s <= stateBound }, func() { id.at.afSet, id.at.afOnly = true, on })
}

// SetAckTimeout sets the local ACK timeout of the ID's QP or, for RD, of a new channel's
// EE context. It is a 5-bit code for 4.096 µs · 2^code; 0 disables the timeout: lost
// packets are never retransmitted. Without this call the timeout is derived from the
// path. A code other than 0, set before ResolveRoute, also sets the packet lifetime of
// the path to half the timeout, from which the CM derives its timeouts. EINVAL above 31
// and for UD.
func (id *ID) SetAckTimeout(code uint8) error {
	if code > mad.MaxTimeout {
		return fmt.Errorf("set ACK timeout: code %d is above %d: %w", code, mad.MaxTimeout, ib.EINVAL)
	}
	acks := func(idState) bool { return id.at.typ == ib.RC || id.at.typ == ib.RD }
	return id.set("set ACK timeout", acks, func() { id.link.settings.ackTimeout, id.link.settings.ackSet = code, true })
}

// chooseTimeout sets the timeout of SetAckTimeout on a connection.
func (s *settings) chooseTimeout(c *cm.Conn) {
	if s.ackSet {
		c.SetAckTimeout(s.ackTimeout)
	}
}

// SetResponseTimeout sets the time within which the peer must answer a CM message, as a
// 5-bit code, and the number of repetitions. 0 stands for the defaults, which are those
// of Linux: code 20, which is 4.3 s, and 15. It must be called before Connect. A passive
// side derives its timeouts from the peer's. EINVAL for a code above 31 or more than 15
// repetitions.
func (id *ID) SetResponseTimeout(code, retries uint8) error {
	if code > mad.MaxTimeout || retries > 15 {
		return fmt.Errorf("set response timeout: code %d (0 to 31), %d repetitions (0 to 15): %w", code, retries, ib.EINVAL)
	}
	return id.set("set response timeout", nil, func() { id.link.settings.cmTimeout, id.link.settings.cmRetries = code, retries })
}

// SetAutoDisconnect makes the ID answer at once when the peer disconnects, as Disconnect
// would; the queue pair of CreateQP is then in ERR, and DISCONNECTED is raised as usual.
// Otherwise the peer waits for the answer until the program calls Disconnect or Destroy, as
// with librdmacm.
func (id *ID) SetAutoDisconnect(on bool) error {
	return id.set("set automatic disconnect", nil, func() { id.link.settings.autoDisconnect = on })
}

// SetQPType sets the service of the ID's connections: RC, the default, or UC; for port
// space IB also UD, with which the ID works like an ID of UDP, XRCIni for the side that
// connects, and XRCTgt for a listener. EINVAL for other services,
// for IDs of UDP and RD, and unless the ID is idle.
func (id *ID) SetQPType(t ib.QPType) error {
	ps := id.PortSpace()
	if own := (t == ib.UD || t == ib.XRCIni || t == ib.XRCTgt) && ps == IB; t != ib.RC && t != ib.UC && !own || ps == UDP || ps == IPoIB || ps == RD {
		return fmt.Errorf("set QP type: %v in port space %v: %w", t, ps, ib.EINVAL)
	}
	return id.set("set QP type", func(s idState) bool { return s == stateIdle }, func() { id.at.typ = t })
}
