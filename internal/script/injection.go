package script

import (
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/roce"
)

// Injection is a packet of the peer: well-formed but for the edits to its
// bytes.
type Injection struct {
	QP       string // whose peer sends it; QP1, or a queue pair's name
	Packet   roce.Packet
	Pad      int    // the PadCnt field alone, without pad bytes; -1: the right value
	Cut      int    // bytes off the end, before the ICRC is computed
	Raw      []byte // all but the ICRC, in place of Packet
	Corrupt  int    // index of a byte that is damaged after the ICRC is computed; -1: none
	Src, Dst netip.Addr
	HopLimit uint8
	TClass   uint8
}

// Bytes builds the datagram. prefix gives the IP and UDP headers before n
// bytes, which the ICRC covers.
func (in *Injection) Bytes(prefix func(n int) roce.Prefix) ([]byte, error) {
	b := make([]byte, roce.Size(in.Packet.BTH.Opcode, len(in.Packet.Payload)))
	in.Packet.Build(b)
	if in.Pad >= 0 {
		b[1] = b[1]&^0x30 | byte(in.Pad)<<4
	}
	if in.Cut > len(b) {
		return nil, fmt.Errorf("cut: the packet has %d bytes", len(b))
	}
	b = b[:len(b)-in.Cut]
	if in.Raw != nil {
		b = append(append(b[:0:0], in.Raw...), 0, 0, 0, 0) // for the ICRC
	}
	if len(b) >= roce.MinSize {
		roce.Seal(b, prefix(len(b)))
	}
	if in.Corrupt >= 0 {
		if in.Corrupt >= len(b) {
			return nil, fmt.Errorf("corrupt: the packet has %d bytes", len(b))
		}
		b[in.Corrupt] ^= 1
	}
	return b, nil
}
