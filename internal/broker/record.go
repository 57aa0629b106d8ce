package broker

import (
	"encoding/binary"
	"net/netip"

	"github.com/softhca/softhca/ib"
)

// recordSize is the bytes of a connection in the ledger, big endian:
//
//	 0     1 if there is one
//	 1     traffic class
//	 2     hop limit
//	 4-5   P_Key
//	 6-7   zero
//	 8-11  the peer's communication ID
//	12-15  ours, 0 if the peer has not named it
//	16-19  the peer's QPN
//	20-23  QPN of the peer's connection manager
//	24-27  flow label
//	32-47  our address, IPv4 as v4-mapped
//	48-63  the peer's
const recordSize = 64

// ledgerSize is the bytes of a ledger: for each slot as many records as
// connections are remembered of a member. Where none was, it takes no memory.
const ledgerSize = 256 * maxKnown * recordSize

// recordAt returns where in the ledger a record of a member is.
func recordAt(slot uint8, place uint16) int64 {
	return (int64(slot)*maxKnown + int64(place)) * recordSize
}

// record returns the record of a connection.
func (c *connection) record() (b [recordSize]byte) {
	p := &c.peer
	b[0], b[1], b[2] = 1, p.TClass, p.HopLimit
	binary.BigEndian.PutUint16(b[4:], uint16(p.PKey))
	binary.BigEndian.PutUint32(b[8:], c.key.id)
	binary.BigEndian.PutUint32(b[12:], c.localID)
	binary.BigEndian.PutUint32(b[16:], uint32(c.qpn))
	binary.BigEndian.PutUint32(b[20:], uint32(p.QPN))
	binary.BigEndian.PutUint32(b[24:], p.FlowLabel)
	local, remote := p.Local.As16(), p.Remote.As16()
	copy(b[32:], local[:])
	copy(b[48:], remote[:])
	return b
}

// recorded returns the connection of a record, nil if there is none.
func recorded(b *[recordSize]byte) *connection {
	if b[0] != 1 {
		return nil
	}
	c := &connection{
		localID: binary.BigEndian.Uint32(b[12:]),
		qpn:     ib.QPN(binary.BigEndian.Uint32(b[16:])) & ib.QPNMask,
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
