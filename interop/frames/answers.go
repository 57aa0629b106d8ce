package frames

import (
	"fmt"
	"slices"
)

// noCredits is the credit code of an acknowledgment that tells no credits, as
// all those of our command do.
const noCredits = 31

// The kinds of an AETH, the highest three bits of its syndrome.
const kindACK = 0

// psnMask and what follows are for numbers of 24 bits.
const (
	psnMask = 1<<24 - 1
	psnHalf = 1 << 23
)

// ends reports whether a request of RC is the last packet of its message.
func (f *Frame) ends() bool {
	switch f.Opcode {
	case 0x02, 0x03, 0x04, 0x05, 0x08, 0x09, 0x0A, 0x0B, readRequest, 0x13, 0x14, 0x16, 0x17:
		return true
	}
	return false
}

// request reports whether a packet is a request of RC.
func (f *Frame) request() bool { return f.Opcode <= readRequest || f.Opcode >= 0x13 && f.Opcode < 0x20 }

// stream are the requests of the guest to one of our queue pairs.
type stream struct {
	first uint32       // PSN of the first
	seen  map[int]bool // offsets of all from the first
	ends  []int        // offsets of the last packets of messages, sorted
	read  *Frame       // the last READ
}

// offset returns the distance of a PSN from the first.
func (s *stream) offset(psn uint32) int {
	d := int((psn - s.first) & psnMask)
	if d >= psnHalf {
		d -= psnMask + 1
	}
	return d
}

// add takes a request.
func (s *stream) add(f *Frame) {
	at := s.offset(f.PSN)
	if s.seen[at] {
		return // sent again
	}
	s.seen[at] = true
	if f.Opcode == readRequest {
		// One that asks for the rest of the last is not another message.
		if r := s.read; r != nil && f.Read.Len < r.Read.Len && f.Read.Addr+uint64(f.Read.Len) == r.Read.Addr+uint64(r.Read.Len) {
			return
		}
		s.read = f
	}
	if f.ends() {
		i, _ := slices.BinarySearch(s.ends, at)
		s.ends = slices.Insert(s.ends, i, at)
	}
}

// completed returns how many messages end at the offset or before.
func (s *stream) completed(at int) uint32 {
	i, _ := slices.BinarySearch(s.ends, at+1)
	return uint32(i)
}

// Answers holds our answers to the guest's requests to what the wire shows:
// each tells no credits, and its MSN counts the messages that were complete.
// It returns what is wrong, one line for each kind of mistake and queue pair.
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
	for i := range fs {
		f := &fs[i]
		switch {
		case f.Err != nil || f.Opcode>>5 != 0:
		case !f.Out && f.request():
			s := streams[f.DestQP]
			if s == nil {
				s = &stream{first: f.PSN, seen: map[int]bool{}}
				streams[f.DestQP] = s
			}
			s.add(f)
		case f.Out && f.answer():
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
				at-- // a NAK names what is missing
			}
			if want := s.completed(at); msn != want {
				report(f, "msn", "MSN %d where %d messages are complete", msn, want)
			}
		}
	}
	return lines
}

// pick returns which of our queue pairs sends an answer: the one that was sent
// a request with its PSN. Packets name only the queue pair that they go to.
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
		return 0 // two whose PSNs overlap: a later answer tells them apart
	}
	ours[f.DestQP] = found[0]
	return found[0]
}
