//go:build linux

package main

import (
	"encoding/binary"
	"hash/crc32"
)

// A segment of data has a header of 12 bytes (kind, flags, payload length,
// sequence number), more header bytes if the overhead asks for them, the
// payload, and a CRC-32 over all that. The other messages are headers, and
// reports carry two counts after it.
const (
	headerLen   = 12
	crcLen      = 4
	minOverhead = headerLen + crcLen
	reportLen   = headerLen + 16
)

// kind is the first byte of a message.
type kind uint8

const (
	kindStart  kind = iota // reset the counts; answered by a report
	kindData               // answered by a report if flagAck is set
	kindProbe              // all earlier segments have arrived or are lost; answered by a report
	kindReport             // the next expected sequence number, then the counts
	kindPing               // sent back unchanged by an echo
)

// flagAck asks for a report.
const flagAck = 1

// header is the beginning of every message.
type header struct {
	kind    kind
	flags   byte
	payload uint16 // bytes; 0 in all but data
	seq     uint64
}

func (h header) put(b []byte) {
	b[0], b[1] = byte(h.kind), h.flags
	binary.BigEndian.PutUint16(b[2:], h.payload)
	binary.BigEndian.PutUint64(b[4:], h.seq)
}

// parseHeader reads the header of b; it returns false if b is too short.
func parseHeader(b []byte) (h header, ok bool) {
	if len(b) < headerLen {
		return h, false
	}
	return header{kind(b[0]), b[1], binary.BigEndian.Uint16(b[2:]), binary.BigEndian.Uint64(b[4:])}, true
}

// seal puts the CRC-32 of a segment into its last bytes.
func seal(seg []byte) {
	end := len(seg) - crcLen
	binary.LittleEndian.PutUint32(seg[end:], crc32.ChecksumIEEE(seg[:end]))
}

// intact reports whether the CRC-32 of a segment of data is right and its
// payload fits.
func intact(seg []byte, payload uint16) bool {
	end := len(seg) - crcLen
	return end >= headerLen+int(payload) && binary.LittleEndian.Uint32(seg[end:]) == crc32.ChecksumIEEE(seg[:end])
}

// report is the counts of a receiver.
type report struct {
	next    uint64 // one more than the highest sequence number known to have arrived or to be lost
	packets uint64 // intact segments
	damaged uint64
}

func (r report) put(b []byte) []byte {
	header{kind: kindReport, seq: r.next}.put(b)
	binary.BigEndian.PutUint64(b[headerLen:], r.packets)
	binary.BigEndian.PutUint64(b[headerLen+8:], r.damaged)
	return b[:reportLen]
}

func parseReport(b []byte) (r report, ok bool) {
	h, _ := parseHeader(b)
	if len(b) != reportLen || h.kind != kindReport {
		return r, false
	}
	r.next = h.seq
	r.packets = binary.BigEndian.Uint64(b[headerLen:])
	r.damaged = binary.BigEndian.Uint64(b[headerLen+8:])
	return r, true
}
