package cm

import (
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/mad"
)

// Defaults for zero fields: the values that Linux's rdma_cm uses on RoCE.
const (
	DefaultResponseTimeout = 20 // code: 4.3 s
	DefaultMaxRetries      = 15
	DefaultLifetime        = 18 // code: 1.07 s
	DefaultMRATimeout      = 24 // code: 69 s
	DefaultHopLimit        = 64
)

// Path is a path between the two ports of a connection.
type Path struct {
	Local, Remote netip.Addr
	FlowLabel     uint32 // 20 bits
	TClass        uint8
	HopLimit      uint8 // 0 means DefaultHopLimit
	SL            uint8
	MTU           ib.MTU
	PKey          ib.PKey // 0 means the default partition
	Lifetime      uint8   // packet lifetime, 5-bit code; 0 means DefaultLifetime
}

// check returns an error if a path cannot carry MADs or data: EADDRNOTAVAIL if
// the source is no local address, otherwise EINVAL. A path without a partition
// uses that of its connection.
func (c *Config) check(p *Path) error {
	if _, ok := c.sgid(p.Local); !ok {
		return fmt.Errorf("path from %v, which is no address of the adapter: %w", p.Local, ib.EADDRNOTAVAIL)
	}
	switch {
	case p.Remote.Is4() != p.Local.Is4() || !p.Remote.IsValid() || p.Remote.IsUnspecified() || p.Remote.IsMulticast():
		return fmt.Errorf("path from %v to %v: %w", p.Local, p.Remote, ib.EINVAL)
	case p.PKey != 0 && !c.isMember(p.PKey):
		return fmt.Errorf("path with P_Key %#04x, which the port's table does not have: %w", uint16(p.PKey), ib.EINVAL)
	case p.FlowLabel > maxFlowLabel || p.SL > maxSL || p.Lifetime > mad.MaxTimeout:
		return fmt.Errorf("path with flow label %#x (20 bits), SL %d (0 to 15), packet lifetime %d (1 to 31): %w",
			p.FlowLabel, p.SL, p.Lifetime, ib.EINVAL)
	}
	return nil
}

const (
	maxFlowLabel = 1<<20 - 1
	maxSL        = 15
)

// REQParams holds the parameters of SendREQ. Slices are copied.
type REQParams struct {
	Service            mad.ServiceID
	Transport          mad.TransportService // RC, UC, RD or, for XRC, TransportExtended
	QPN                ib.QPN               // local QPN
	QKey               ib.QKey              // RD: of the local QP
	EECN               ib.EECN              // RD: local EE context, for a new channel
	Channel            *Channel             // RD: an existing channel to join; nil for a new one
	Path               Path
	ResponderResources uint8 // READs and atomics that this side accepts at a time; not XRC
	InitiatorDepth     uint8 // READs and atomics that this side has outstanding
	RetryCount         uint8 // 0 to 7
	RNRRetryCount      uint8 // 0 to 7
	FlowControl        bool
	SRQ                bool
	// ResponseTimeout is the 5-bit code of the time within which the peer must
	// answer the REQ, and this side the REP.
	ResponseTimeout uint8
	MaxRetries      uint8 // of each CM message, 1 to 15; 0 means DefaultMaxRetries
	PrivateData     []byte
}

// REPParams holds the parameters of SendREP.
type REPParams struct {
	QPN                ib.QPN  // local QPN
	QKey               ib.QKey // RD: of the local QP
	EECN               ib.EECN // RD: local EE context; 0 if the peer joins a channel
	ResponderResources uint8
	InitiatorDepth     uint8
	RNRRetryCount      uint8
	FlowControl        bool
	SRQ                bool
	PrivateData        []byte
}

// REJParams holds the parameters of SendREJ.
type REJParams struct {
	Reason      mad.RejReason
	Info        []byte // additional rejection information, at most 72 bytes
	PrivateData []byte
}

// SIDRREQParams holds the parameters of SendSIDRREQ.
type SIDRREQParams struct {
	Service         mad.ServiceID
	Path            Path
	ResponseTimeout uint8 // 5-bit code
	MaxRetries      uint8 // 1 to 15; 0 means DefaultMaxRetries
	PrivateData     []byte
}

// SIDRREPParams holds the parameters of SendSIDRREP.
type SIDRREPParams struct {
	Status      mad.SIDRStatus
	QPN         ib.QPN
	QKey        ib.QKey
	Info        []byte
	PrivateData []byte
}

// APRParams holds the parameters of SendAPR.
type APRParams struct {
	Status      mad.APRStatus
	Info        []byte
	PrivateData []byte
}
