package ring

import "errors"

// ErrGarbage is the error of an end of a ring whose peer wrote what no correct peer writes.
var ErrGarbage = errors.New("ring: the peer wrote garbage")

// line is the size in bytes of a cache line. Records begin at multiples of it.
const line = 64

// The words of a Memory, by their offsets. The first three belong to the ring that its owner fills,
// the others to the ring that its owner empties. Processors prefetch lines in pairs, so words are
// two lines apart.
const (
	headAt     = 0 * line // position after the last published record; headEnd is added when the ring ends
	waitingAt  = 2 * line // odd while the producer waits for room
	switchedAt = 3 * line // 1 after Switch; changes once, so the line before does not suffer
	tailAt     = 4 * line // position after the last released record
	sleepingAt = 6 * line // odd while the consumer sleeps
)

// headEnd is the flag in the head that says that no more records follow.
const headEnd = 1

// The bounds of the size of the records in bytes, which is a power of two.
const (
	minSize = 1 << 12
	maxSize = 1 << 24
)

// maxCount is the maximum number of packets in a record.
const maxCount = 1 << 10

// A record begins with two words: a header, and a tag that belongs to the caller. The bytes
// of the record follow, and padding to the next line.
//
//	 63      52 51             26 25              0
//	+----------+-----------------+-----------------+
//	|  count   |     stride      |     length      |
//	+----------+-----------------+-----------------+
const (
	headerLen   = 16
	lengthBits  = 26
	lengthMask  = 1<<lengthBits - 1
	strideShift = lengthBits
	countShift  = 2 * lengthBits
)

// header is the first word of a record.
type header uint64

func newHeader(length, stride, count int) header {
	return header(uint64(length) | uint64(stride)<<strideShift | uint64(count)<<countShift)
}

func (h header) length() int { return int(h & lengthMask) }
func (h header) stride() int { return int(h >> strideShift & lengthMask) }
func (h header) count() int  { return int(h >> countShift) }

// valid reports whether the lengths of a record fit each other: all packets have stride bytes
// but the last, which has at least one byte.
func (h header) valid() bool {
	n, stride, count := uint64(h.length()), uint64(h.stride()), uint64(h.count())
	return stride <= n && count > 0 && count <= maxCount && (count-1)*stride < n && n <= count*stride
}

// span returns the bytes that a record of n bytes occupies in the ring.
func span(n int) uint64 { return (uint64(n) + headerLen + line - 1) &^ (line - 1) }

// Counts are what an end of a ring has counted since it was created.
type Counts struct {
	Records uint64 // committed by a producer, read by a consumer
	Packets uint64 // in these records
	Bytes   uint64 // of these packets
	Full    uint64 // reservations for which a producer had no room
	Dropped uint64 // packets that the caller of a producer dropped (Drop)
	Wakes   uint64 // times that the caller was asked to wake the peer
}

func (c *Counts) add(packets, bytes int) {
	c.Records++
	c.Packets += uint64(packets)
	c.Bytes += uint64(bytes)
}
