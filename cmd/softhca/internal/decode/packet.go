package decode

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/roce"
)

// Packet is the JSON form of one packet. Missing extended headers are nil. In a
// malformed packet, everything after the fault is missing.
type Packet struct {
	Record    int        `json:"packet"`              // number of the record in the file, from 1; packets that were captured as one have the same
	Time      time.Time  `json:"time"`                // of capture
	Src       netip.Addr `json:"src"`                 // sender
	SrcPort   uint16     `json:"src_port"`            // UDP source port
	Dst       netip.Addr `json:"dst"`                 // receiver
	TClass    uint8      `json:"tclass"`              // IPv4 TOS or IPv6 traffic class
	TTL       uint8      `json:"ttl"`                 // IPv4 TTL or IPv6 hop limit
	ID        *uint16    `json:"ip_id,omitempty"`     // IPv4 only
	Length    int        `json:"length"`              // captured bytes of the UDP payload
	Malformed string     `json:"malformed,omitempty"` // why it is no RoCEv2 packet, or truncated

	BTH       *BTH    `json:"bth,omitempty"`        // base transport header
	RDETH     *RDETH  `json:"rdeth,omitempty"`      // of RD
	DETH      *DETH   `json:"deth,omitempty"`       // of UD and RD
	XRCETH    *XRCETH `json:"xrceth,omitempty"`     // of XRC requests
	FETH      *FETH   `json:"feth,omitempty"`       // of FLUSH
	RETH      *RETH   `json:"reth,omitempty"`       // of RDMA requests
	Atomic    *Atomic `json:"atomic,omitempty"`     // of atomic requests
	AETH      *AETH   `json:"aeth,omitempty"`       // of acknowledges and of most responses
	AtomicAck *Hex64  `json:"atomic_ack,omitempty"` // the value before the operation
	Imm       *uint32 `json:"imm,omitempty"`        // immediate data
	InvRKey   *uint32 `json:"inv_rkey,omitempty"`   // key that SEND with invalidate invalidates
	MAD       *MAD    `json:"mad,omitempty"`        // in a packet to QP1
	Payload   int     `json:"payload"`              // bytes, without padding
	ICRC      *uint32 `json:"icrc,omitempty"`       // ICRC of the packet, 32 bits
	ICRCOK    bool    `json:"icrc_ok"`              // the ICRC is right
	Data      *string `json:"data,omitempty"`       // the payload, if requested, two digits a byte

	payload []byte // without padding, of a malformed packet all after the UDP header; the reader's, until the next packet
}

// BTH is the base transport header.
type BTH struct {
	Opcode  uint8  `json:"opcode"`   // 8 bits
	Name    string `json:"name"`     // of the opcode, such as RC_SEND_ONLY
	SE      bool   `json:"se"`       // solicited event
	MigReq  bool   `json:"migreq"`   // path migration: 1 is MIGRATED
	Pad     uint8  `json:"pad"`      // pad bytes after the payload
	TVer    uint8  `json:"tver"`     // transport version
	PKey    uint16 `json:"pkey"`     // partition
	FECN    bool   `json:"fecn"`     // congestion on the way
	BECN    bool   `json:"becn"`     // congestion on the way back
	DestQPN uint32 `json:"dest_qpn"` // destination queue pair
	AckReq  bool   `json:"ack_req"`  // the packet requests an acknowledgement
	PSN     uint32 `json:"psn"`      // packet sequence number
}

// RDETH is the extended header of RD packets.
type RDETH struct {
	EEC uint32 `json:"eec"` // the EE context at the destination
}

// DETH is the datagram extended header.
type DETH struct {
	QKey   uint32 `json:"qkey"`    // Q_Key that the receiver must have
	SrcQPN uint32 `json:"src_qpn"` // of the sender
}

// XRCETH is the extended header of XRC requests.
type XRCETH struct {
	SRQN uint32 `json:"srqn"` // the shared receive queue
}

// FETH is the extended header of FLUSH.
type FETH struct {
	Placement   uint8 `json:"placement"`   // 4 bits: 1 for visible to all, 2 for kept across a power loss, or both
	Selectivity uint8 `json:"selectivity"` // 2 bits: 0 for the address range, 1 for the whole region
}

// RETH is the extended header of RDMA requests.
type RETH struct {
	VA     Hex64  `json:"va"`     // of the memory at the responder
	RKey   uint32 `json:"rkey"`   // of that memory
	Length uint32 `json:"length"` // bytes of the whole message
}

// Atomic is the extended header of atomic requests.
type Atomic struct {
	VA      Hex64  `json:"va"`       // of the 8 bytes at the responder
	RKey    uint32 `json:"rkey"`     // of that memory
	SwapAdd Hex64  `json:"swap_add"` // value to swap in or to add
	Compare Hex64  `json:"compare"`  // comparison value of COMPARE & SWAP
}

// AETH is the acknowledge extended header.
type AETH struct {
	Syndrome uint8  `json:"syndrome"` // 8 bits
	Name     string `json:"name"`     // of the syndrome, such as ACK(31) or NAK_SEQUENCE
	MSN      uint32 `json:"msn"`      // messages that the responder has completed, 24 bits
}

// Hex64 is a number of 64 bits. In JSON it is a hexadecimal string: many
// readers of JSON keep only 53 bits of a number.
type Hex64 uint64

// MarshalText returns the number as "0x1f".
func (h Hex64) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%#x", uint64(h)), nil }

// newPacket returns the Packet of raw. It keeps the payload of raw.
func newPacket(raw *pcapfile.Packet) *Packet {
	p := &Packet{
		Record: raw.Record, Time: raw.Time, Src: raw.Src, SrcPort: raw.SrcPort, Dst: raw.Dst, Length: len(raw.Payload),
	}
	if raw.Src.Is4() {
		p.TClass, p.TTL, p.ID = raw.IP[1], raw.IP[8], new(binary.BigEndian.Uint16(raw.IP[4:]))
	} else {
		p.TClass, p.TTL = raw.IP[0]<<4|raw.IP[1]>>4, raw.IP[7]
	}
	var pkt roce.Packet
	fault := pkt.Parse(raw.Payload)
	if raw.Truncated || fault != roce.FaultNone {
		p.cut(raw, fault)
		return p
	}
	p.base(&pkt)
	p.extended(&pkt)
	p.MAD = madOf(&pkt)
	p.payload, p.Payload = pkt.Payload, len(pkt.Payload)
	icrc, ok := roce.HeaderICRC(raw.IP, raw.UDP, raw.Payload)
	p.ICRCOK = ok && icrc == pkt.ICRC
	p.ICRC = new(pkt.ICRC)
	return p
}

// cut fills in the valid part of a packet that is malformed or cut off.
func (p *Packet) cut(raw *pcapfile.Packet, fault roce.Fault) {
	var pkt roce.Packet
	headFault := pkt.ParseHeaders(raw.Payload)
	p.Malformed, p.payload = fault.String(), raw.Payload
	if raw.Truncated {
		p.Malformed = "truncated"
	}
	if len(raw.Payload) < roce.BTHLen {
		return
	}
	p.base(&pkt)
	if headFault == roce.FaultNone {
		p.extended(&pkt)
	}
}

func (p *Packet) base(pkt *roce.Packet) {
	h := &pkt.BTH
	p.BTH = &BTH{
		Opcode: uint8(h.Opcode), Name: h.Opcode.String(), SE: h.SE, MigReq: h.MigReq, Pad: h.PadCnt, TVer: h.TVer,
		PKey: uint16(h.PKey), FECN: h.FECN, BECN: h.BECN, DestQPN: uint32(h.DestQP), AckReq: h.AckReq, PSN: h.PSN.Value(),
	}
}

func (p *Packet) extended(pkt *roce.Packet) {
	has := func(h roce.Headers) bool { return pkt.Info.Headers&h != 0 }
	if has(roce.HasRDETH) {
		p.RDETH = &RDETH{pkt.RDETH.EEC}
	}
	if has(roce.HasDETH) {
		p.DETH = &DETH{uint32(pkt.DETH.QKey), uint32(pkt.DETH.SrcQP)}
	}
	if has(roce.HasXRCETH) {
		p.XRCETH = &XRCETH{pkt.XRCETH.SRQN}
	}
	if has(roce.HasFETH) {
		p.FETH = &FETH{pkt.FETH.Placement, pkt.FETH.Selectivity}
	}
	if has(roce.HasRETH) {
		p.RETH = &RETH{Hex64(pkt.RETH.VA), uint32(pkt.RETH.RKey), pkt.RETH.Length}
	}
	if has(roce.HasAtomicETH) {
		h := &pkt.AtomicETH
		p.Atomic = &Atomic{Hex64(h.VA), uint32(h.RKey), Hex64(h.SwapAdd), Hex64(h.Compare)}
	}
	if has(roce.HasAETH) {
		s := pkt.AETH.Syndrome
		p.AETH = &AETH{uint8(s), s.String(), uint32(pkt.AETH.MSN)}
	}
	if has(roce.HasAtomicAckETH) {
		p.AtomicAck = new(Hex64(pkt.AtomicAck))
	}
	if has(roce.HasImmDt) {
		p.Imm = &pkt.Imm
	}
	if has(roce.HasIETH) {
		p.InvRKey = new(uint32(pkt.InvRKey))
	}
}
