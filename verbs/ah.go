package verbs

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/check/live"
)

// errNoAH is returned for calls on a nil address handle.
var errNoAH = fmt.Errorf("no address handle: %w", ib.EINVAL)

// AH is an address handle: the destination of UD messages.
type AH struct {
	pd *PD
	h  ib.AHHandle

	check *live.Object
}

// CreateAH resolves an address vector. It returns EINVAL if the vector has no destination, a
// hop limit of 0, a port or SGID index that does not exist, or addresses of two families, and
// ErrInsufficientResources beyond the limit that QueryDevice reports.
func (p *PD) CreateAH(attr AHAttr) (*AH, error) {
	h, err := p.object().CreateAH(&attr)
	if err != nil {
		used(p.checks(), err, p.checked())
		return nil, fmt.Errorf("create AH: %w", err)
	}
	return &AH{p, h, p.checks().Made("address handle", 0, p.checked())}, nil
}

// hopLimit is the hop limit of a reply: the remaining hop limit of the request says nothing
// about the way back.
const hopLimit = 64

// InitAHFromWC returns the address vector of the sender of a UD message, as
// ibv_init_ah_from_wc does: wc is the message's completion, grh the first 40
// bytes of its receive buffer. EINVAL if the completion has no GRH, or if the
// packet was not sent to an address of this adapter.
func (c *Context) InitAHFromWC(wc *WC, grh []byte) (AHAttr, error) {
	src, dst, ok := addressesOf(grh)
	if !ok || wc == nil || wc.Flags&ib.WCGRH == 0 {
		return AHAttr{}, fmt.Errorf("address vector of a message: no GRH: %w", ib.EINVAL)
	}
	a := AHAttr{DGID: GIDFromAddr(src), HopLimit: hopLimit, Port: 1} // the completion's SL is not a service level
	if word := binary.BigEndian.Uint32(grh); src.Is6() {
		a.FlowLabel, a.TrafficClass = word&0xfffff, uint8(word>>20)
	} else {
		a.TrafficClass = grh[grhIPv4+1]
	}
	for i := range math.MaxUint8 + 1 {
		if c.QueryGID(i) == GIDFromAddr(dst) {
			a.SGIDIndex = uint8(i)
			return a, nil
		}
	}
	return AHAttr{}, fmt.Errorf("address vector of a message to %v: not an address of this adapter: %w", dst, ib.EINVAL)
}

// The GRH area of a UD message: an IPv6 header, or an IPv4 header at its end.
const (
	grhBytes = 40
	grhIPv4  = 20
)

// addressesOf returns the source and the destination in a GRH area.
func addressesOf(grh []byte) (src, dst netip.Addr, ok bool) {
	switch {
	case len(grh) < grhBytes:
		return src, dst, false
	case grh[0]>>4 == 6:
		return netip.AddrFrom16([16]byte(grh[8:])), netip.AddrFrom16([16]byte(grh[24:])), true
	case grh[grhIPv4]>>4 == 4:
		return netip.AddrFrom4([4]byte(grh[grhIPv4+12:])), netip.AddrFrom4([4]byte(grh[grhIPv4+16:])), true
	}
	return src, dst, false
}

// checked returns the handle for the checker; nil for none.
func (a *AH) checked() *live.Object {
	if a == nil {
		return nil
	}
	return a.check
}

// Destroy destroys the handle. Messages that still name it complete with LOC_QP_OP_ERR. EINVAL
// if it is already destroyed.
func (a *AH) Destroy() error {
	if a == nil || a.pd == nil {
		return errNoAH
	}
	return wrap("destroy AH", ended(a.pd.checks(), a.check, a.pd.obj.DestroyAH(a.h)))
}
