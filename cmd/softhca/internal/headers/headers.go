package headers

import "github.com/softhca/softhca/roce"

// padMask is where the BTH counts its padding, in its second byte.
const padMask = 3 << 4

// Parse reads the BTH and the extended headers from first, the beginning of a
// UDP payload. The pad count is the packet's own, Payload is empty and ICRC
// means nothing. It returns what roce.Packet.Parse does, and roce.FaultShort
// or roce.FaultLength when first ends before the headers do. It neither
// panics nor keeps first.
func Parse(first []byte) (roce.Packet, roce.Fault) {
	var p roce.Packet
	if len(first) < roce.BTHLen {
		return p, roce.FaultShort
	}
	n := int(roce.Opcode(first[0]).Info().HeaderLen)
	if len(first) < n {
		first, n = first[:roce.BTHLen], roce.BTHLen
	}
	var buf [roce.MaxHeaderLen + roce.ICRCLen]byte
	copy(buf[:], first[:n])
	buf[1] &^= padMask
	fault := p.Parse(buf[:n+roce.ICRCLen])
	p.BTH.PadCnt = first[1] & padMask >> 4
	p.Payload = nil
	return p, fault
}
