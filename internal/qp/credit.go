package qp

import (
	"github.com/softhca/softhca/ib"
)

// creditState is how many messages the peer has receives for (IBA 9.7.7.2).
// Until an AETH has brought a count, nothing is limited.
type creditState struct {
	unlimited bool
	limit     uint32 // number of the last message that has a receive
}

// needsCredit reports whether a message consumes a receive at the peer.
func needsCredit(o ib.WROpcode) bool { return isSend(o) || o == ib.WRRDMAWriteWithImm }

// allows reports whether message number ssn may begin. One message more than
// there are credits may: its answer brings the next count.
func (c *creditState) allows(o ib.WROpcode, ssn uint32) bool {
	return c.unlimited || !needsCredit(o) || seqDiff(ssn, c.limit) <= 1
}

// begin counts n messages that take a number; those that need no receive move
// the limit along.
func (c *creditState) begin(o ib.WROpcode, n uint32) {
	if !c.unlimited && !needsCredit(o) {
		c.limit += n
	}
}

// update takes the count of an AETH.
func (c *creditState) update(msn ib.MSN, code uint8) {
	n, ok := ib.Credits(code)
	l := uint32(msn) + n
	if ok && (c.unlimited || seqDiff(l, c.limit) > 0) {
		c.limit = l
	}
	c.unlimited = !ok
}

// seqDiff returns the signed distance of two 24-bit sequence numbers.
func seqDiff(a, b uint32) int32 { return int32((a-b)<<8) >> 8 }
