package rig

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
)

// Signature holds the fields of a packet that most tests compare. The syndrome
// is 0xff where there is no AETH.
type Signature struct {
	op       roce.Opcode
	psn      uint32
	syndrome roce.Syndrome
}

// noAETH stands in a signature for a packet without an AETH.
const noAETH roce.Syndrome = 0xff

// Sig is the signature of a packet with an AETH.
func Sig(op roce.Opcode, psn uint32, syndrome roce.Syndrome) Signature {
	return Signature{op, psn, syndrome}
}

// SigOf is the signature of p.
func SigOf(p *roce.Packet) Signature {
	g := Signature{p.BTH.Opcode, p.BTH.PSN.Value(), noAETH}
	if p.Info.Headers&roce.HasAETH != 0 {
		g.syndrome = p.AETH.Syndrome
	}
	return g
}

// Req is the signature of a request.
func Req(op roce.Opcode, psn uint32) Signature { return Signature{op, psn, noAETH} }

// Ack is the signature of an ACKNOWLEDGE.
func Ack(s roce.Syndrome, psn uint32) Signature { return Signature{roce.RCAcknowledge, psn, s} }

// Completion holds the fields of a completion that most tests compare.
type Completion struct {
	id     uint64
	status ib.WCStatus
}

// WC is the completion of a work request.
func WC(id uint64, status ib.WCStatus) Completion { return Completion{id, status} }
