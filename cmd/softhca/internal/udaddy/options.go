package udaddy

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
	Space rdmacm.PortSpace
	TOS   *uint8 // client: the type of service, unless it is nil
}
