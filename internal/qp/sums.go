package qp

import (
	"hash/crc32"

	"github.com/softhca/softhca/ib"
)

// maxSums is the number of packets of a requester whose payload is compared if they are repeated. Of more in
// flight, the oldest are not.
const maxSums = 1024

// payloadSums are checksums of the payload of the newest packets, by PSN.
type payloadSums [maxSums]struct {
	psn   ib.PSN
	index uint32 // of the work request
	sum   uint32
	used  bool
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// compare compares the payload of the packet that is about to be sent with that of an earlier transmission of it.
func (r *requester) compare(payload []byte) {
	if r.sums == nil {
		r.sums = new(payloadSums)
	}
	psn, sum := r.flight.Next(), crc32.Checksum(payload, castagnoli)
	s := &r.sums[psn.Value()%maxSums]
	if s.used && s.psn == psn && s.index == r.next && s.sum != sum {
		r.ep.env.Changed(r.qp.Num(), r.next)
	}
	s.psn, s.index, s.sum, s.used = psn, r.next, sum, true
}
