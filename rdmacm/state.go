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

// in returns an error unless the ID is in one of some states. call is held.
func (id *ID) in(states ...idState) error {
	return id.do(func(clock.Instant) error {
		if !slices.Contains(states, id.state) {
			return id.state.refuses()
		}
		return nil
	})
}

// become moves the ID to a state, and raises events if it has any.
func (id *ID) become(s idState, events ...EventType) error {
	return id.do(func(clock.Instant) error {
		id.state = s
		for _, e := range events {
			id.post(&Event{Type: e})
		}
		return nil
	})
}

// refuses returns the error of a call that the state does not allow.
func (s idState) refuses() error { return fmt.Errorf("not in state %q: %w", s, ib.EINVAL) }
