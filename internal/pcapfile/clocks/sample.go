package clocks

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"math"
	"slices"

	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/internal/pcapfile/runs"
	"github.com/softhca/softhca/roce"
)

const (
	// maxSamples is the maximum number of packets per capture that are compared. Of a larger capture
	// those with small sums are, which are the same packets in all captures.
	maxSamples = 1 << 17
	// maxRepeats is the maximum number of equal packets that are compared.
	maxRepeats = 16
	// hashed is the number of bytes of a UDP payload that identify a packet. It is more than the headers
	// of a request or its answer, and less than a capture usually cuts off.
	hashed = 64
)

// sample is a packet of a capture.
type sample struct {
	sum   uint64             // of what the network does not change
	at    int64              // Unix time in nanoseconds, by the clock of the capture
	pair  uint32             // sum of both addresses
	forth bool               // from the smaller address to the greater
	way   pcapfile.Direction // at the place of capture
}

// Samples are the packets of a capture that are compared.
type Samples struct {
	list  []sample // grouped by sum after Collect, in the order of the capture within a group
	limit uint64   // samples with greater sums are not kept
}

// Collect reads a capture to its end, or to where it is damaged. It blocks as r does.
func Collect(r *pcapfile.Reader) *Samples {
	s := &Samples{limit: math.MaxUint64}
	for {
		p, err := r.Next()
		if err != nil { // whoever reads the capture again sees the error
			s.group()
			return s
		}
		s.take(p)
	}
}

// take adds a captured packet, or the packets of a run.
func (s *Samples) take(p *pcapfile.Packet) {
	if p.Truncated {
		if len(p.Payload) >= hashed {
			s.add(sampleOf(p))
		}
		return
	}
	if len(p.Payload) < roce.MinSize {
		return
	}
	sum, ok := roce.HeaderICRC(p.IP, p.UDP, p.Payload)
	right := ok && sum == binary.LittleEndian.Uint32(p.Payload[len(p.Payload)-roce.ICRCLen:])
	if right || !runs.Split(p, func(one *pcapfile.Packet) { s.add(sampleOf(one)) }) {
		s.add(sampleOf(p))
	}
}

// sampleOf returns the sample of a packet. The sum is of the addresses, the length and the first bytes, so it
// does not depend on how much of each packet a capture keeps.
func sampleOf(p *pcapfile.Packet) sample {
	low, high := p.Src, p.Dst
	forth := low.Less(high)
	if !forth {
		low, high = high, low
	}
	pair := fnv.New32a()
	for _, a := range [][]byte{low.AsSlice(), high.AsSlice()} {
		_, _ = pair.Write(a) // never fails
	}
	sum := fnv.New64a()
	for _, b := range [][]byte{p.Src.AsSlice(), p.Dst.AsSlice(), p.UDP[4:6], p.Payload[:min(len(p.Payload), hashed)]} {
		_, _ = sum.Write(b)
	}
	return sample{sum: spread(sum.Sum64()), at: p.Time.UnixNano(), pair: pair.Sum32(), forth: forth, way: p.Direction}
}

// spread distributes sums over the whole range: in those of FNV the last bytes hardly change the high bits.
func spread(sum uint64) uint64 {
	sum ^= sum >> 32
	sum *= 0x9e3779b97f4a7c15
	return sum ^ sum>>29
}

// add adds a sample, unless its sum is too great.
func (s *Samples) add(x sample) {
	if len(s.list) >= maxSamples {
		s.thin()
	}
	if x.sum <= s.limit && len(s.list) < maxSamples {
		s.list = append(s.list, x)
	}
}

// thin makes room for half of the samples.
func (s *Samples) thin() {
	s.group()
	for len(s.list) > maxSamples/2 && s.limit > 0 {
		s.limit /= 2
		s.list = slices.DeleteFunc(s.list, func(x sample) bool { return x.sum > s.limit })
	}
}

// group sorts the samples by their sums. Of too many equal packets it leaves one more than are compared.
func (s *Samples) group() {
	slices.SortStableFunc(s.list, func(a, b sample) int { return cmp.Compare(a.sum, b.sum) })
	kept := s.list[:0]
	for list := s.list; len(list) > 0; {
		n := equal(list)
		kept = append(kept, list[:min(n, maxRepeats+1)]...)
		list = list[n:]
	}
	s.list = kept
}

// equal returns how many samples at the beginning of a list have the same sum.
func equal(list []sample) int {
	n := 0
	for n < len(list) && list[n].sum == list[0].sum {
		n++
	}
	return n
}
