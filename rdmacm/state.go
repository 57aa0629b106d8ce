package rdmacm

import (
	"fmt"

	"github.com/softhca/softhca/ib"
)

// idState is how far an ID has come. Of the states of rdma_cm those that last
// for the time of a query are missing: nothing here takes any.
type idState uint8

const (
	stateIdle          idState = iota
	stateBound                 // has an address or a port of its own
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

// refuses returns the error of a call that the state does not allow.
func (s idState) refuses() error { return fmt.Errorf("not in state %q: %w", s, ib.EINVAL) }
