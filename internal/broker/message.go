package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/softhca/softhca/mad"
)

// version is the version of the protocol. Both sides must have the same.
const version = 2

// The bounds of the protocol.
const (
	maxMessage   = 32 << 10                // bytes
	maxServices  = 2 * 4096                // of a member: the services of a connection manager, and the XRC domains of an adapter
	maxStrangers = 256                     // connections that have not joined
	helloTime    = 2 * time.Second         // until a connection must send its first message
	replyTime    = 2 * time.Second         // until the broker answers
	recoverTime  = 2 * time.Second         // until a member brings the store
	settleTime   = 1500 * time.Millisecond // until all other living members have rejoined
)

// ErrNone is returned if no broker of this user serves the address.
var ErrNone = errors.New("no broker serves the address")

// errAway is returned while there is no broker.
var errAway = fmt.Errorf("the broker has ended: if it was softhca broker, start it again with the same --addr: %w", syscall.EAGAIN)

// The kinds of messages.
const (
	opJoin    = "join"
	opWelcome = "welcome"
	opRefused = "refused"
	opClaim   = "claim"
	opClaimed = "claimed"
	opRelease = "release"
	opReady   = "ready"
	opLeave   = "leave"
	opWho     = "who"
	opMembers = "members"
	opSucceed = "succeed"
	opStore   = "store"
	opAway    = "away"
)

// message is any message of the protocol; Op determines the fields that are used.
type message struct {
	Op      string        `json:"op"`
	Version int           `json:"version,omitempty"`
	Addrs   []netip.Addr  `json:"addrs,omitempty"`
	Program string        `json:"program,omitempty"`
	Slot    uint8         `json:"slot,omitempty"`
	Back    bool          `json:"back,omitempty"`   // a member of the previous broker joins
	Hosted  bool          `json:"hosted,omitempty"` // a member runs the broker
	GUID    uint64        `json:"guid,omitempty"`
	Error   string        `json:"error,omitempty"`
	Seq     uint64        `json:"seq,omitempty"`
	Service mad.ServiceID `json:"service,omitempty"`
	Errno   syscall.Errno `json:"errno,omitempty"`
	Slots   int           `json:"slots,omitempty"`
	Members []Member      `json:"members,omitempty"`
	Names   []string      `json:"names,omitempty"` // of the listeners
}

// refusal is a final refusal of a broker.
type refusal struct{ error }

// Unwrap returns the reason.
func (r *refusal) Unwrap() error { return r.error }

// refused returns the error of an answer that is not the requested one.
func (m *message) refused() error {
	switch m.Op {
	case opRefused:
		return &refusal{fmt.Errorf("%s: %w", strings.TrimSuffix(m.Error, ": "+m.Errno.Error()), m.Errno)}
	case opAway:
		return fmt.Errorf("%w: %w", ErrNone, errAway)
	default:
		return &refusal{fmt.Errorf("broker: an unexpected %.20q: %w", m.Op, syscall.EPROTO)}
	}
}

// Member is a process that has joined.
type Member struct {
	Slot     uint8  `json:"slot"`     // top byte of its QPNs
	PID      int    `json:"pid"`      // process ID
	Program  string `json:"program"`  // its name
	Services int    `json:"services"` // that it listens to
}

// encode returns the bytes of a message.
func (m *message) encode() ([]byte, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("broker: %s: %w", m.Op, err)
	}
	if len(b) > maxMessage {
		return nil, fmt.Errorf("broker: %s of %d bytes: at most %d are allowed: %w", m.Op, len(b), maxMessage, syscall.EMSGSIZE)
	}
	return b, nil
}

// decode reads a message.
func decode(b []byte) (*message, error) {
	m := new(message)
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("broker: malformed message: %w", err)
	}
	return m, nil
}
