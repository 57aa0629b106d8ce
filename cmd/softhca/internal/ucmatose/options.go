package ucmatose

import (
	"github.com/softhca/softhca/cmd/softhca/internal/nodes"
	"github.com/softhca/softhca/rdmacm"
)

// Options are what the user may choose. The load is to be the same on both
// sides.
type Options struct {
	nodes.Load
	Host  string // client: the server
	Bind  string // own address; "": any, or that of the route
	Port  string
	Space rdmacm.PortSpace
	// TOS and AckTimeout are set on the connections unless they are nil. The
	// type of service is for the client to choose.
	TOS, AckTimeout *uint8
	Migrate         bool // move to another event channel before the end
}
