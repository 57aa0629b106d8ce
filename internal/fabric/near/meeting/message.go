package meeting

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// version is the version of the messages and of the rings. Both sides must have the same.
const version = 1

// The errors of a meeting.
var (
	ErrNone    = errors.New("meeting: no process has the name")
	ErrUser    = errors.New("meeting: the other process belongs to another user")
	ErrVersion = errors.New("meeting: the other process has another version")
	ErrRefused = errors.New("meeting: the other process refuses")
	ErrMessage = errors.New("meeting: malformed message")
)

// Identity identifies a process on an address that several processes share.
type Identity struct {
	Addr       netip.Addr // without zone, never v4-mapped
	Slot       uint8
	Generation uint64 // random, new for each process that holds the slot
}

// Key is an identity without the generation: the place of a process.
type Key struct {
	Addr netip.Addr
	Slot uint8
}

// Key returns the place of the identity.
func (i Identity) Key() Key { return Key{i.Addr, i.Slot} }

// less orders keys by address, then by slot.
func (k Key) less(o Key) bool {
	return cmp.Or(k.Addr.Compare(o.Addr), cmp.Compare(k.Slot, o.Slot)) < 0
}

// kind is the kind of a message.
type kind uint8

const (
	invitation kind = 1 + iota
	offer           // with a descriptor
	welcome         // with a descriptor
	refusal
	inquiry // from any process of the user: with how many processes do you share memory?
	status  // the answer, as the number
)

// message is a message of a meeting.
type message struct {
	kind   kind
	number uint64   // of the invitation; in a status, the number of peers
	from   Identity // the sender
	to     Identity // the receiver; in an invitation without its generation
}

// A message has these bytes, in network byte order. The first seven are the same in all versions.
//
//	 0  "SHNM"
//	 4  version
//	 6  kind
//	 7  number
//	15  from: address (IPv4 as v4-mapped), slot, generation
//	40  to: the same
const (
	magic       = "SHNM"
	identityLen = 16 + 1 + 8
	messageLen  = 15 + 2*identityLen
)

// encode returns the bytes of a message.
func (m *message) encode() []byte {
	b := append(make([]byte, 0, messageLen), magic...)
	b = binary.BigEndian.AppendUint16(b, version)
	b = append(b, byte(m.kind))
	b = binary.BigEndian.AppendUint64(b, m.number)
	for _, i := range []Identity{m.from, m.to} {
		addr := i.Addr.As16()
		b = append(append(b, addr[:]...), i.Slot)
		b = binary.BigEndian.AppendUint64(b, i.Generation)
	}
	return b
}

// decode reads a message.
func decode(b []byte) (m message, err error) {
	if len(b) < len(magic)+3 || string(b[:len(magic)]) != magic {
		return m, ErrMessage
	}
	if v := binary.BigEndian.Uint16(b[4:]); v != version {
		return m, fmt.Errorf("%w: %d, this one %d", ErrVersion, v, version)
	}
	m.kind = kind(b[6])
	if len(b) != messageLen || m.kind < invitation || m.kind > status {
		return message{}, ErrMessage
	}
	m.number = binary.BigEndian.Uint64(b[7:])
	m.from, m.to = decodeIdentity(b[15:]), decodeIdentity(b[15+identityLen:])
	return m, nil
}

func decodeIdentity(b []byte) Identity {
	addr := netip.AddrFrom16([16]byte(b)).Unmap()
	return Identity{Addr: addr, Slot: b[16], Generation: binary.BigEndian.Uint64(b[17:])}
}
