package mad

import "encoding/binary"

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

func (h *Header) decode(b *[HeaderSize]byte) {
	h.BaseVersion = b[0]
	h.Class = Class(b[1])
	h.ClassVersion = b[2]
	h.Method = Method(b[3])
	h.Status = Status(binary.BigEndian.Uint16(b[4:]))
	h.ClassSpecific = binary.BigEndian.Uint16(b[6:])
	h.TID = binary.BigEndian.Uint64(b[8:])
	h.AttrID = AttrID(binary.BigEndian.Uint16(b[16:]))
	h.AttrMod = binary.BigEndian.Uint32(b[20:])
}

func (h *Header) put(b *[HeaderSize]byte) {
	b[0] = h.BaseVersion
	b[1] = byte(h.Class)
	b[2] = h.ClassVersion
	b[3] = byte(h.Method)
	binary.BigEndian.PutUint16(b[4:], uint16(h.Status))
	binary.BigEndian.PutUint16(b[6:], h.ClassSpecific)
	binary.BigEndian.PutUint64(b[8:], h.TID)
	binary.BigEndian.PutUint16(b[16:], uint16(h.AttrID))
	binary.BigEndian.PutUint16(b[18:], 0)
	binary.BigEndian.PutUint32(b[20:], h.AttrMod)
}
