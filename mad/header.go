package mad

const (
	// BaseVersion is the version of the header that this package knows.
	BaseVersion = 1
	// CMClassVersion is the version of the messages of ClassCM.
	CMClassVersion = 2
)

// Header is the head of every management datagram (IBA 13.4.3).
//
//	 0               1               2               3
//	+---------------+---------------+---------------+---------------+
//	|  BaseVersion  |     Class     | ClassVersion  |    Method     |
//	+---------------+---------------+---------------+---------------+
//	|            Status             |         ClassSpecific         |
//	+-------------------------------+-------------------------------+
//	|                                                               |
//	+                              TID                              +
//	|                                                               |
//	+-------------------------------+-------------------------------+
//	|            AttrID             |           Reserved            |
//	+-------------------------------+-------------------------------+
//	|                            AttrMod                            |
//	+---------------------------------------------------------------+
type Header struct {
	BaseVersion   uint8 // BaseVersion
	Class         Class
	ClassVersion  uint8 // CMClassVersion for ClassCM
	Method        Method
	Status        Status // of a response
	ClassSpecific uint16
	TID           uint64 // names a request and is repeated in the answer; opaque to the peer
	AttrID        AttrID
	AttrMod       uint32 // 0 in CM messages but for enhanced connection establishment
}

// CMHeader returns the header of a message of the communication manager:
// every one, answers too, is a Send (IBA 16.7).
func CMHeader(attr AttrID, tid uint64) Header {
	return Header{
		BaseVersion: BaseVersion, Class: ClassCM, ClassVersion: CMClassVersion, Method: MethodSend,
		TID: tid, AttrID: attr,
	}
}

// layout has the places of the fields.
func (h *Header) layout(l layout) {
	u8(l, 0, &h.BaseVersion)
	u8(l, 1, &h.Class)
	u8(l, 2, &h.ClassVersion)
	u8(l, 3, &h.Method)
	u16(l, 4, &h.Status)
	u16(l, 6, &h.ClassSpecific)
	u64(l, 8, &h.TID)
	u16(l, 16, &h.AttrID)
	u32(l, 20, &h.AttrMod)
}

// Class is a management class: which service a datagram is for (IBA 13.4.4).
type Class uint8

// The classes that meet at a port of RoCE or that packet tools see.
const (
	ClassSM         Class = 0x01 // subnet management, routed by LID
	ClassSA         Class = 0x03 // subnet administration
	ClassPerf       Class = 0x04 // performance management
	ClassDeviceMgmt Class = 0x06 // device management
	ClassCM         Class = 0x07 // communication management
	ClassCongestion Class = 0x21 // congestion control
	ClassSMDirected Class = 0x81 // subnet management, directed route
)

var classNames = map[Class]string{
	ClassSM:         "SM",
	ClassSA:         "SA",
	ClassPerf:       "PERF",
	ClassDeviceMgmt: "DEV_MGMT",
	ClassCM:         "CM",
	ClassCongestion: "CONGESTION",
	ClassSMDirected: "SM_DIRECTED",
}

// String returns the short name of the class, such as "CM".
func (c Class) String() string { return hexName(classNames, c, "Class") }

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
