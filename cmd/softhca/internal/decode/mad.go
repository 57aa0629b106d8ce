package decode

import (
	"encoding/json"
	"fmt"
	"strings"

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
	Message       string `json:"message,omitempty"`

	data object // of the message

	text string // of the line
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
		d.data = dataOf(m, h.AttrID)
	}
	return d
}

// MarshalJSON adds the data of a message, under its name.
func (d *MAD) MarshalJSON() ([]byte, error) {
	type header MAD
	b, err := json.Marshal((*header)(d))
	if err != nil || d.data == nil {
		return b, err
	}
	data, err := json.Marshal(d.data)
	return fmt.Appendf(b[:len(b)-1], ",%q:%s}", strings.ToLower(d.Message), data), err
}
