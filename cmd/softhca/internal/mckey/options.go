package mckey

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/softhca/softhca/cmd/softhca/internal/nodes"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
)

// name is what the program calls itself.
const name = "mckey"

// Options are what the user may choose.
type Options struct {
	nodes.Load
	Group    string // multicast address or a name of one
	MGID     string // a group that has no IP address
	Bind     string // own address; "": that of the route to the group
	Sender   bool
	Space    rdmacm.PortSpace
	SendOnly bool // join without receiving
	NoLoop   bool // do not receive what this host sends
	// Pause is the time that groups and receivers have to get ready, between
	// joining and sending.
	Pause time.Duration
}

// Check returns what is wrong with the options.
func (o *Options) Check() error {
	if err := o.Load.Check(); err != nil {
		return err
	}
	switch {
	case o.MGID != "" && o.Bind == "":
		return fmt.Errorf("unmapped multicast address requires binding to source address (-b)")
	case o.MGID != "":
		return fmt.Errorf("group %s: RoCE has only groups with an IP address: name it with -m: %w", o.MGID, ib.EOPNOTSUPP)
	case o.Group == "":
		return fmt.Errorf("no group: name a multicast address with -m, such as 239.1.2.3")
	case o.NoLoop:
		return fmt.Errorf("the adapter cannot leave out what it sends itself (-l): %w", ib.EOPNOTSUPP)
	case o.Pause < 0:
		return fmt.Errorf("pause %v: want a time, or 0 for none", o.Pause)
	}
	if a, err := netip.ParseAddr(o.Group); err == nil && !a.IsMulticast() {
		return fmt.Errorf("%v is no multicast address: those of IPv4 are 224.0.0.0 to 239.255.255.255, of IPv6 ff00::/8", a)
	}
	return nil
}
