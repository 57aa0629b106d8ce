package mad

import "github.com/softhca/softhca/ib"

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

// layout has the places of the fields.
func (r *SIDRREQ) layout(l layout) {
	u32(l, 0, &r.RequestID)
	u16(l, 4, &r.PKey)
	u64(l, 8, &r.ServiceID)
	l.bytes(16, r.PrivateData[:])
}

// Decode sets every field from the data of m, without reading its header.
func (r *SIDRREQ) Decode(m *MAD) { r.layout(m.reading()) }

// Put writes the data of m but not its header, which is CMHeader(AttrSIDRREQ,
// tid).
func (r *SIDRREQ) Put(m *MAD) { r.layout(m.writing()) }
