package broker

import (
	"encoding/binary"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// recordSize is the size of a connection in the connection table, in bytes, big endian:
//
//	 0     1 if there is a connection, 2 if its peer has sent a DREQ
//	 1     traffic class
//	 2     hop limit
//	 4-5   P_Key
//	 6-7   zero
//	 8-11  the peer's communication ID
//	12-15  ours, 0 if the peer has not named it
//	16-19  the peer's QPN; after a DREQ, the first half of its transaction ID
//	20-23  QPN of the peer's connection manager
//	24-27  flow label
//	28-31  the other half of the transaction ID
//	32-47  our address, IPv4 as v4-mapped
//	48-63  the peer's
const recordSize = 64

// The first byte of a record.
const (
	recordIs   = 1
	recordEnds = 2
)

// connTableSize is the size of a connection table in bytes: maxKnown records for each slot. Records that
// were never written take no memory.
const connTableSize = 256 * maxKnown * recordSize

// recordAt returns the offset of a member's record in the connection table.
func recordAt(slot uint8, place uint16) int64 {
	return (int64(slot)*maxKnown + int64(place)) * recordSize
}

// record returns the record of a connection.
func (c *connection) record() (b [recordSize]byte) {
	p := &c.peer
	b[0], b[1], b[2] = recordIs, p.TClass, p.HopLimit
	binary.BigEndian.PutUint16(b[4:], uint16(p.PKey))
	binary.BigEndian.PutUint32(b[8:], c.key.id)
	binary.BigEndian.PutUint32(b[12:], c.localID)
	binary.BigEndian.PutUint32(b[16:], uint32(c.qpn))
	binary.BigEndian.PutUint32(b[20:], uint32(p.QPN))
	binary.BigEndian.PutUint32(b[24:], p.FlowLabel)
	if c.ending.asked {
		b[0] = recordEnds
		binary.BigEndian.PutUint32(b[16:], uint32(c.ending.tid>>32))
		binary.BigEndian.PutUint32(b[28:], uint32(c.ending.tid))
	}
	local, remote := p.Local.As16(), p.Remote.As16()
	copy(b[32:], local[:])
	copy(b[48:], remote[:])
	return b
}

// recorded returns the connection of a record, nil if there is none. After a DREQ it is
// unknown whether the peer still waits: the DREQ is assumed to have arrived now.
func recorded(now clock.Instant, b *[recordSize]byte) *connection {
	if b[0] != recordIs && b[0] != recordEnds {
		return nil
	}
	c := &connection{
		localID: binary.BigEndian.Uint32(b[12:]),
		qpn:     ib.QPN(binary.BigEndian.Uint32(b[16:])) & ib.QPNMask,
	}
	if b[0] == recordEnds {
		c.ending = ending{asked: true, tid: uint64(binary.BigEndian.Uint32(b[16:]))<<32 | uint64(binary.BigEndian.Uint32(b[28:])), since: now}
	}
	p := &c.peer
	p.TClass, p.HopLimit, p.PKey = b[1], b[2], ib.PKey(binary.BigEndian.Uint16(b[4:]))
	p.QPN = ib.QPN(binary.BigEndian.Uint32(b[20:]))
	p.FlowLabel = binary.BigEndian.Uint32(b[24:])
	p.Local = netip.AddrFrom16([16]byte(b[32:])).Unmap()
	p.Remote = netip.AddrFrom16([16]byte(b[48:])).Unmap()
	c.key = remoteKey{binary.BigEndian.Uint32(b[8:]), p.Remote}
	return c
}
