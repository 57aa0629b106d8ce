package mad

// AttrID names what is in the data of a datagram. Numbers of 0x10 and above
// mean something else in each class.
type AttrID uint16

// AttrClassPortInfo is the attribute that every class has.
const AttrClassPortInfo AttrID = 0x0001

// The attributes of ClassCM: its messages.
const (
	AttrREQ     AttrID = 0x0010
	AttrMRA     AttrID = 0x0011
	AttrREJ     AttrID = 0x0012
	AttrREP     AttrID = 0x0013
	AttrRTU     AttrID = 0x0014
	AttrDREQ    AttrID = 0x0015
	AttrDREP    AttrID = 0x0016
	AttrSIDRREQ AttrID = 0x0017
	AttrSIDRREP AttrID = 0x0018
	AttrLAP     AttrID = 0x0019
	AttrAPR     AttrID = 0x001a
)

var attrNames = map[AttrID]string{
	AttrClassPortInfo: "ClassPortInfo",
	AttrREQ:           "REQ", AttrMRA: "MRA", AttrREJ: "REJ", AttrREP: "REP", AttrRTU: "RTU", AttrDREQ: "DREQ", AttrDREP: "DREP",
	AttrSIDRREQ: "SIDR_REQ", AttrSIDRREP: "SIDR_REP", AttrLAP: "LAP", AttrAPR: "APR",
}

// String returns the name of the attribute in ClassCM, such as "REQ".
func (a AttrID) String() string { return hexName(attrNames, a, "AttrID") }
