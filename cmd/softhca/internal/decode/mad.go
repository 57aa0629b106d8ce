package decode

import (
	"bytes"
	"encoding/hex"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// MAD is a management datagram: its header, and its data if it is a message of
// the communication manager.
type MAD struct {
	BaseVersion   uint8  `json:"base_version"`
	Class         uint8  `json:"class"`
	ClassName     string `json:"class_name"`
	ClassVersion  uint8  `json:"class_version"`
	Method        uint8  `json:"method"`
	MethodName    string `json:"method_name"`
	Status        uint16 `json:"status"`
	ClassSpecific uint16 `json:"class_specific"`
	TID           Hex64  `json:"tid"`
	AttrID        uint16 `json:"attr_id"`
	AttrMod       uint32 `json:"attr_mod"`
	Message       string `json:"message,omitempty"` // which of the following it is

	REQ     *REQ     `json:"req,omitempty"`
	MRA     *MRA     `json:"mra,omitempty"`
	REJ     *REJ     `json:"rej,omitempty"`
	REP     *REP     `json:"rep,omitempty"`
	RTU     *RTU     `json:"rtu,omitempty"`
	DREQ    *DREQ    `json:"dreq,omitempty"`
	DREP    *RTU     `json:"drep,omitempty"` // it has the same fields
	SIDRREQ *SIDRREQ `json:"sidr_req,omitempty"`
	SIDRREP *SIDRREP `json:"sidr_rep,omitempty"`
	LAP     *LAP     `json:"lap,omitempty"`
	APR     *APR     `json:"apr,omitempty"`

	text string // of the line
}

// IP is the addressing in the private data of a REQ or a SIDR_REQ.
type IP struct {
	Src     netip.Addr `json:"src"`
	SrcPort uint16     `json:"src_port"`
	Dst     netip.Addr `json:"dst"`
}

// madOf tells of the management datagram in a packet to QP1, nil if there is
// none.
func madOf(p *roce.Packet) *MAD {
	if p.BTH.Opcode != roce.UDSendOnly || p.BTH.DestQP != ib.QPNGSI || len(p.Payload) != mad.Size {
		return nil
	}
	m := (*mad.MAD)(p.Payload)
	h := m.Header()
	d := &MAD{
		BaseVersion: h.BaseVersion, Class: uint8(h.Class), ClassName: h.Class.String(), ClassVersion: h.ClassVersion,
		Method: uint8(h.Method), MethodName: h.Method.String(), Status: uint16(h.Status), ClassSpecific: h.ClassSpecific,
		TID: Hex64(h.TID), AttrID: uint16(h.AttrID), AttrMod: h.AttrMod, text: mad.Describe(m),
	}
	if h.IsCM() {
		d.Message = h.AttrID.String()
		d.data(m, h.AttrID)
	}
	return d
}

// data tells of the message.
func (d *MAD) data(m *mad.MAD, attr mad.AttrID) {
	switch attr {
	case mad.AttrREQ:
		d.REQ = newREQ(m)
	case mad.AttrMRA:
		d.MRA = newMRA(m)
	case mad.AttrREJ:
		d.REJ = newREJ(m)
	case mad.AttrREP:
		d.REP = newREP(m)
	case mad.AttrRTU:
		d.RTU = newRTU(m)
	case mad.AttrDREQ:
		d.DREQ = newDREQ(m)
	case mad.AttrDREP:
		d.DREP = newDREP(m)
	case mad.AttrSIDRREQ:
		d.SIDRREQ = newSIDRREQ(m)
	case mad.AttrSIDRREP:
		d.SIDRREP = newSIDRREP(m)
	case mad.AttrLAP:
		d.LAP = newLAP(m)
	case mad.AttrAPR:
		d.APR = newAPR(m)
	}
}

// ipOf takes private data apart: the addressing, nil if the service has none,
// and what the program gave.
func ipOf(id mad.ServiceID, data []byte) (ip *IP, rest []byte) {
	if ps, _, ok := id.IP(); !ok || ps == mad.PSIB {
		return nil, data
	}
	h, err := mad.ParseIPHeader((*[mad.IPHeaderSize]byte)(data))
	if err != nil {
		return nil, data
	}
	return &IP{h.SrcAddr, h.SrcPort, h.DstAddr}, data[mad.IPHeaderSize:]
}

// private returns private data without the zeros at its end, in hexadecimal.
func private(data []byte) string { return hex.EncodeToString(bytes.TrimRight(data, "\x00")) }

// information returns the bytes of additional information that count, in
// hexadecimal.
func information(info *[mad.InfoSize]byte, length uint8) string {
	return hex.EncodeToString(info[:min(int(length), len(info))])
}
