package decode

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// MAD is a management datagram: its header, and its data if it is a message of
// the communication manager.
type MAD struct {
	BaseVersion   uint8  `json:"base_version"`      // 1
	Class         uint8  `json:"class"`             // 7 is the connection manager
	ClassName     string `json:"class_name"`        // the same in words
	ClassVersion  uint8  `json:"class_version"`     // 2 of the connection manager
	Method        uint8  `json:"method"`            // 3 is Send
	MethodName    string `json:"method_name"`       // the same in words
	Status        uint16 `json:"status"`            // of the datagram
	ClassSpecific uint16 `json:"class_specific"`    // 16 bits with a meaning in each class
	TID           Hex64  `json:"tid"`               // transaction ID
	AttrID        uint16 `json:"attr_id"`           // attribute; of the connection manager, the message
	AttrMod       uint32 `json:"attr_mod"`          // attribute modifier
	Message       string `json:"message,omitempty"` // REQ, MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP, LAP or APR; missing in datagrams of other classes

	data object // of the message

	text string // of the line
}

// madOf returns the management datagram in a packet to QP1, or nil if there is none.
func madOf(p *roce.Packet) *MAD {
	if !IsManagement(p) {
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

// decoder is a message of the connection manager.
type decoder interface{ Decode(m *mad.MAD) }

// decoders create a message of each kind.
var decoders = map[mad.AttrID]func() decoder{
	mad.AttrREQ: func() decoder { return new(mad.REQ) }, mad.AttrMRA: func() decoder { return new(mad.MRA) },
	mad.AttrREJ: func() decoder { return new(mad.REJ) }, mad.AttrREP: func() decoder { return new(mad.REP) },
	mad.AttrRTU: func() decoder { return new(mad.RTU) }, mad.AttrDREQ: func() decoder { return new(mad.DREQ) },
	mad.AttrDREP: func() decoder { return new(mad.DREP) }, mad.AttrSIDRREQ: func() decoder { return new(mad.SIDRREQ) },
	mad.AttrSIDRREP: func() decoder { return new(mad.SIDRREP) }, mad.AttrLAP: func() decoder { return new(mad.LAP) },
	mad.AttrAPR: func() decoder { return new(mad.APR) },
}

// dataOf returns the message in m: every field of package mad's structure, in its order,
// by its name in lower case.
func dataOf(m *mad.MAD, attr mad.AttrID) object {
	create := decoders[attr]
	if create == nil {
		return nil
	}
	message := create()
	message.Decode(m)
	o := objectOf(reflect.ValueOf(message).Elem())
	if attr == mad.AttrREJ { // the reason comes first, then its additional information
		at := slices.IndexFunc(o, func(m member) bool { return m.name == "info_length" })
		o[at], o[at+1], o[at+2] = o[at+1], o[at+2], o[at]
	}
	return o
}

// object is a JSON object whose members have an order.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON writes the members in their order.
func (o object) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, '"'), m.name...), '"', ':')
		b = append(b, value...)
	}
	return append(b, '}'), nil
}

// objectOf returns the fields of a message or of one of its paths.
func objectOf(v reflect.Value) (o object) {
	for i := range v.NumField() {
		o = append(o, members(v, jsonName(v.Type().Field(i).Name), v.Field(i).Interface())...)
	}
	return o
}

// words are the words in the names of fields.
var words = regexp.MustCompile("RDC|RNR|SAP|CM|CA|QKey|PKey|[A-Z][a-z]+|[A-Z]+")

// jsonName returns the name of a field in lower case, such as "local_ca_guid".
func jsonName(field string) string {
	return strings.ToLower(strings.Join(words.FindAllString(field, -1), "_"))
}

// members returns the JSON members for one field of a message. A number with a name has
// a member for its name too.
func members(message reflect.Value, name string, field any) []member {
	switch f := field.(type) {
	case mad.ServiceID:
		return []member{{name, Hex64(f)}, {"service", f.String()}}
	case mad.TransportService, mad.Which, mad.RejReason, mad.SIDRStatus, mad.APRStatus:
		return []member{{name, f}, {name + "_name", fmt.Sprint(f)}}
	case mad.Path:
		if _, isREQ := message.Addr().Interface().(*mad.REQ); isREQ && f == (mad.Path{}) {
			return nil // the message proposes no alternate path
		}
		return []member{{name, objectOf(reflect.ValueOf(f))}}
	case [mad.InfoSize]byte:
		length := message.FieldByName("InfoLength").Uint()
		return []member{{name, hex.EncodeToString(f[:min(length, mad.InfoSize)])}}
	case ib.MTU:
		return []member{{name + "_code", f}} // a path_mtu of others is in bytes
	case uint64:
		return []member{{name, ib.GUID(f)}}
	case ib.PSN:
		return []member{{name, f.Value()}}
	case ib.GID:
		return []member{{name, f.String()}}
	}
	if name == "private_data" {
		return privateData(message)
	}
	return []member{{name, field}}
}

// privateData returns the JSON members for private data: the IP addressing, if the
// service has one, and the program's data without the zeros at its end.
func privateData(message reflect.Value) (all []member) {
	data := bytes.Clone(message.FieldByName("PrivateData").Bytes())
	if id := message.FieldByName("ServiceID"); id.IsValid() && message.FieldByName("Status") == (reflect.Value{}) {
		var ip *IP
		if ip, data = ipOf(mad.ServiceID(id.Uint()), data); ip != nil {
			all = append(all, member{"ip", ip})
		}
	}
	return append(all, member{"private_data", hex.EncodeToString(bytes.TrimRight(data, "\x00"))})
}

// IP is the addressing in the private data of a REQ or a SIDR_REQ.
type IP struct {
	Src     netip.Addr `json:"src"`      // of the client
	SrcPort uint16     `json:"src_port"` // of the client
	Dst     netip.Addr `json:"dst"`      // of the server
}

// ipOf splits private data into the addressing, nil if the service has none, and the
// program's data.
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
