package frames

import (
	"fmt"
	"slices"
)

// noCredits is the credit code of an acknowledgment that carries no credits, as
// all acknowledgments of our command do.
const noCredits = 31

// The kind of an AETH is the highest three bits of its syndrome.
const kindACK = 0

// psnMask and the next constants are for 24-bit numbers.
const (
	psnMask = 1<<24 - 1
	psnHalf = 1 << 23
)

// ends reports whether a packet is the last of the request for a message. UC's
// and UD's opcodes are RC's with another service in front.
func (f *Frame) ends() bool {
	switch f.Opcode & operationMask {
	case 0x02, 0x03, 0x04, 0x05, 0x08, 0x09, 0x0A, 0x0B, readRequest, 0x13, 0x14, 0x16, 0x17, flush, atomicWrite:
		return true
	}
	return false
}

// request reports whether a packet is a request of RC.
func (f *Frame) request() bool { return f.Opcode <= readRequest || f.Opcode >= 0x13 && f.Opcode < 0x20 }

// stream is the guest's requests to one of our queue pairs.
type stream struct {
	first uint32       // PSN of the first
	seen  map[int]bool // offsets of all from the first
	ends  []int        // offsets of the last packets of messages, sorted
	reads []*Frame     // the READs, without those for the rest of an earlier one
	again int          // the lowest offset that was sent again, if any was
	twice bool
}

// offset returns the distance of a PSN from the first.
func (s *stream) offset(psn uint32) int {
	d := int((psn - s.first) & psnMask)
	if d >= psnHalf {
		d -= psnMask + 1
	}
	return d
}

// add adds a request.
func (s *stream) add(f *Frame) {
	at := s.offset(f.PSN)
	if s.seen[at] {
		s.repeats(at)
		return
	}
	s.seen[at] = true
	if f.Opcode == readRequest {
		// A READ for the rest of an earlier one is no new message.
		if slices.ContainsFunc(s.reads, func(r *Frame) bool { return s.rest(f, r) }) {
			s.repeats(at)
			return
		}
		s.reads = append(s.reads, f)
	}
	if f.ends() {
		i, _ := slices.BinarySearch(s.ends, at)
		s.ends = slices.Insert(s.ends, i, at)
	}
}

// repeats records a retransmitted request.
func (s *stream) repeats(at int) {
	if !s.twice || at < s.again {
		s.again, s.twice = at, true
	}
}

// counts reports whether an answer at the offset may carry an MSN: the number
// of messages complete at the offset or, if it may answer a duplicate, the
// number complete by now.
func (s *stream) counts(at int, msn uint32) bool {
	want := s.completed(at)
	return msn == want || s.twice && at >= s.again && msn > want && msn <= uint32(len(s.ends))
}

// rest reports whether a READ asks for the missing rest of an earlier one: it
// has the same end, and is shorter by one path MTU for each PSN that it is
// further.
func (s *stream) rest(f, earlier *Frame) bool {
	packets := s.offset(f.PSN) - s.offset(earlier.PSN)
	had := int64(earlier.Read.Len) - int64(f.Read.Len)
	if packets <= 0 || had <= 0 || f.Read.Addr+uint64(f.Read.Len) != earlier.Read.Addr+uint64(earlier.Read.Len) {
		return false
	}
	mtu := had / int64(packets)
	return mtu*int64(packets) == had && mtu >= 256 && mtu <= 4096 && mtu&(mtu-1) == 0
}

// completed returns how many messages end at the offset or before.
func (s *stream) completed(at int) uint32 {
	i, _ := slices.BinarySearch(s.ends, at+1)
	return uint32(i)
}

// Answers checks our answers to the guest's requests against the wire: each
// carries no credits, and its MSN counts the complete messages. It returns the
// mistakes, one line for each kind and queue pair.
func Answers(fs []Frame) []string {
	streams := map[uint32]*stream{} // by our queue pair
	ours := map[uint32]uint32{}     // our queue pair of each of the guest's
	wrong := map[string]bool{}
	var lines []string
	report := func(f *Frame, key, format string, args ...any) {
		if key = fmt.Sprint(key, f.DestQP); !wrong[key] {
			wrong[key] = true
			lines = append(lines, fmt.Sprintf(format, args...)+": "+f.String())
		}
	}
	// All requests first: the capture may have an answer before its request.
	for i := range fs {
		if f := &fs[i]; f.Err == nil && f.Opcode>>5 == 0 && !f.Out && f.request() {
			s := streams[f.DestQP]
			if s == nil {
				s = &stream{first: f.PSN, seen: map[int]bool{}}
				streams[f.DestQP] = s
			}
			s.add(f)
		}
	}
	for i := range fs {
		f := &fs[i]
		if f.Err != nil || f.Opcode>>5 != 0 || !f.Out || !f.answer() {
			continue
		}
		syndrome, msn := f.AETH>>24, f.AETH&psnMask
		if syndrome>>5 == kindACK && syndrome != noCredits {
			report(f, "credits", "credit code %d", syndrome)
		}
		s := streams[pick(streams, ours, f)]
		if s == nil {
			continue
		}
		at := s.offset(f.PSN)
		if syndrome>>5 != kindACK {
			at-- // a NAK has the PSN of the first missing packet
		}
		if !s.counts(at, msn) {
			report(f, "msn", "MSN %d where %d messages are complete", msn, s.completed(at))
		}
	}
	return lines
}

// pick returns which of our queue pairs sends an answer: the one that was sent
// a request with its PSN. Packets name only their destination queue pair.
func pick(streams map[uint32]*stream, ours map[uint32]uint32, f *Frame) uint32 {
	if q, ok := ours[f.DestQP]; ok {
		return q
	}
	var found []uint32
	for q, s := range streams {
		if s.seen[s.offset(f.PSN)] {
			found = append(found, q)
		}
	}
	if len(found) != 1 {
		return 0 // the PSNs of two overlap: a later answer decides
	}
	ours[f.DestQP] = found[0]
	return found[0]
}
