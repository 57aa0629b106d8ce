//go:build !portable

package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/identity"
)

// maxNames is the maximum number of names of a broker for each address.
const maxNames = 2

// namePrefix starts the names of brokers.
const namePrefix = "@softhca/broker/"

// socketName returns the public name of the broker's socket for an address, which every user
// can compute. The name is abstract: it exists in this network namespace, not in a file system.
func socketName(a netip.Addr) *net.UnixAddr {
	return &net.UnixAddr{Name: namePrefix + a.String(), Net: "unixpacket"}
}

// namesOf returns the names of the broker's sockets for an address, the private one first. A
// user without a secret has none.
func namesOf(a netip.Addr, secret *identity.Secret) []string {
	if secret == nil {
		return []string{socketName(a).Name}
	}
	return []string{namePrefix + secret.Name(a), socketName(a).Name}
}

// errSquatted is returned if another user has all names of an address.
var errSquatted = errors.New("broker: the names of the address are taken")

// squatter describes the owner of a name that this user's broker needs.
func squatter(name string) string {
	who := "another user"
	if uid, ok := ownerOf(name); ok {
		who = fmt.Sprintf("user %d", uid)
	}
	return fmt.Sprintf("%s has the socket %s, by which processes find each other", who, name)
}

// ours reports whether this user has a name.
func ours(name string) bool {
	uid, ok := ownerOf(name)
	return ok && ofThisUser(uid) == nil
}

// The attributes of a Unix socket that ownerOf requests, as linux/unix_diag.h numbers them.
const (
	diagShowName = 1 << 0
	diagShowUID  = 1 << 6
	diagName     = 0
	diagUID      = 7
	diagHead     = 16 // bytes of a unix_diag_msg
)

// diagRequest is a unix_diag_req: a request for the sockets in all states.
type diagRequest struct{}

// Len implements nl.NetlinkRequestData.
func (diagRequest) Len() int { return 24 }

// Serialize implements nl.NetlinkRequestData.
func (r diagRequest) Serialize() []byte {
	b := make([]byte, r.Len())
	b[0] = unix.AF_UNIX
	binary.NativeEndian.PutUint32(b[4:], ^uint32(0)) // states
	binary.NativeEndian.PutUint32(b[12:], diagShowName|diagShowUID)
	return b
}

// ownerOf returns the user who made the socket with a name, also one that does not listen. It
// returns false if there is none, or if the kernel does not report owners (before Linux 5.3).
func ownerOf(name string) (uid uint32, ok bool) {
	req := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP)
	req.AddData(diagRequest{})
	all, err := req.Execute(unix.NETLINK_INET_DIAG, 0)
	if err != nil {
		return 0, false
	}
	for _, b := range all {
		if len(b) < diagHead {
			continue
		}
		attrs, err := nl.ParseRouteAttr(b[diagHead:])
		if err != nil {
			continue
		}
		is, who, told := false, uint32(0), false
		for _, a := range attrs {
			switch {
			case a.Attr.Type == diagName:
				is = string(a.Value) == strings.Replace(name, "@", "\x00", 1)
			case a.Attr.Type == diagUID && len(a.Value) == 4:
				who, told = binary.NativeEndian.Uint32(a.Value), true
			}
		}
		if is {
			return who, told
		}
	}
	return 0, false
}
