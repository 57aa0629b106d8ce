package rdmacm

import (
	"fmt"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// idState is the state of an ID. It has no counterparts of rdma_cm's states during a
// query: here queries take no time.
type idState uint8

const (
	stateIdle          idState = iota
	stateBound                 // has an address or a port
	stateAddrResolved          // knows its adapter and its peer's address
	stateRouteResolved         // may connect
	stateConnect               // has a connection, in any of the CM's states
	stateDisconnect            // had one; TIMEWAIT runs
	stateListen
	stateRemoved // its adapter is gone
	numIDStates
)

var idStateNames = [numIDStates]string{
	"idle", "bound", "address resolved", "route resolved", "connect", "disconnect", "listen", "device removed",
}

// String returns the state in words.
func (s idState) String() string {
	if s < numIDStates {
		return idStateNames[s]
	}
	return "invalid state"
}

// in returns an error unless the state is one of some. ID.call is held.
func (l *link) in(states ...idState) error {
	return l.at.do(func(clock.Instant) error {
		if !slices.Contains(states, l.state) {
			return l.state.refuses()
		}
		return nil
	})
}

// become changes the state, and raises events if it has any. ID.call is held.
func (l *link) become(s idState, events ...EventType) error {
	return l.at.do(func(clock.Instant) error {
		l.state = s
		for _, e := range events {
			l.inbox.post(&Event{Type: e})
		}
		return nil
	})
}

// refuses returns the error of a call that the state does not allow.
func (s idState) refuses() error { return fmt.Errorf("not in state %q: %w", s, ib.EINVAL) }
