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

// replace notes the payload of a packet that is about to be sent, of the work request with an index, and reports
// whether an earlier transmission of the packet had another payload.
func (t *payloadSums) replace(psn ib.PSN, index uint32, payload []byte) (changed bool) {
	s, sum := &t[psn.Value()%maxSums], crc32.Checksum(payload, castagnoli)
	changed = s.used && s.psn == psn && s.index == index && s.sum != sum
	s.psn, s.index, s.sum, s.used = psn, index, sum, true
	return changed
}
