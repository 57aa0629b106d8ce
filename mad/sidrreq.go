package mad

import (
	"encoding/binary"

	"github.com/softhca/softhca/ib"
)

// SIDRREQPrivateData is the size of the private data of a SIDR_REQ in bytes.
// With IP addressing its first IPHeaderSize bytes are the IPHeader.
const SIDRREQPrivateData = 216

// SIDRREQ asks which UD queue pair serves a service; answered by SIDR_REP
// (IBA table 119).
//
//	byte     field
//	  0-  3  RequestID
//	  4-  5  PKey
//	  6-  7  reserved
//	  8- 15  ServiceID
//	 16-231  PrivateData
type SIDRREQ struct {
	RequestID   uint32 // the sender's handle of the request
	PKey        ib.PKey
	ServiceID   ServiceID
	PrivateData [SIDRREQPrivateData]byte
}

// Decode sets every field from the data of m, without reading its header.
func (r *SIDRREQ) Decode(m *MAD) {
	d := m.Data()
	r.RequestID = binary.BigEndian.Uint32(d[0:])
	r.PKey = ib.PKey(binary.BigEndian.Uint16(d[4:]))
	r.ServiceID = ServiceID(binary.BigEndian.Uint64(d[8:]))
	r.PrivateData = [SIDRREQPrivateData]byte(d[16:])
}

// Put writes the data of m but not its header, which is CMHeader(AttrSIDRREQ,
// tid).
func (r *SIDRREQ) Put(m *MAD) {
	d := m.Data()
	clear(d[:])
	binary.BigEndian.PutUint32(d[0:], r.RequestID)
	binary.BigEndian.PutUint16(d[4:], uint16(r.PKey))
	binary.BigEndian.PutUint64(d[8:], uint64(r.ServiceID))
	copy(d[16:], r.PrivateData[:])
}
