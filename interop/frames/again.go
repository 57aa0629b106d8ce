package frames

// Reshaped returns a request of RC that the guest sent again as another operation
// than before, nil if there is none: its requester has then lost its place in a
// message, and what it sends from there on is not what it was asked to.
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
