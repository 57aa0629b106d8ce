package roce

import "github.com/softhca/softhca/ib"

const (
	// sourcePortBase begins the range of UDP source ports, 14 bits wide, that
	// spread flows over equal paths.
	sourcePortBase = 0xc000
	flowLabelMask  = 1<<20 - 1
	// goldenRatio32 is the multiplier of the Linux hash_32.
	goldenRatio32 = 0x61c88647
)

// FlowLabel returns the 20-bit flow label of a connection whose address
// vector gives none, from the numbers of its two queue pairs. It is the same
// at both ends, as in rdma_calc_flow_label of Linux.
func FlowLabel(local, remote ib.QPN) uint32 {
	v := uint64(local) * uint64(remote)
	v ^= v >> 20
	v ^= v >> 40
	return uint32(v) & flowLabelMask
}

// SourcePort returns the UDP source port of a flow label, of which the low 20
// bits count: rdma_flow_label_to_udp_sport of Linux.
func SourcePort(flowLabel uint32) uint16 {
	flowLabel &= flowLabelMask
	return sourcePortBase | uint16(flowLabel&0x3fff^flowLabel>>14)
}

// SourcePortOfQPN returns the UDP source port that Linux rxe gives a queue
// pair at its creation and that its datagram QPs keep.
func SourcePortOfQPN(q ib.QPN) uint16 {
	return sourcePortBase + uint16(uint32(q)*goldenRatio32>>18)
}
