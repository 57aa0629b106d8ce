package frames

// Reshaped returns an RC request that the guest retransmitted as a different
// operation, nil if there is none: the requester has then lost its position in a
// message, and the rest of its packets are wrong.
func Reshaped(fs []Frame) *Frame {
	type place struct{ qp, psn uint32 }
	was := map[place]uint8{}
	for i := range fs {
		f := &fs[i]
		if f.Out || f.Err != nil || f.Opcode>>5 != 0 || !f.request() {
			continue
		}
		at := place{f.DestQP, f.PSN}
		if before, ok := was[at]; ok && before != f.Opcode {
			return f
		}
		was[at] = f.Opcode
	}
	return nil
}
