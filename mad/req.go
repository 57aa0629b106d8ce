package mad

import (
	"encoding/binary"

	"github.com/softhca/softhca/ib"
)

// REQPrivateData is the size of the private data of a REQ in bytes. With IP
// addressing its first IPHeaderSize bytes are the IPHeader.
const REQPrivateData = 92

// REQ asks for a connection: the active side's first message, answered by
// REP, REJ or MRA (IBA table 106). Local is its sender, remote its receiver.
//
//	byte     field
//	  0-  3  LocalCommID
//	  4      reserved
//	  5-  7  VendorID
//	  8- 15  ServiceID
//	 16- 23  LocalCAGUID
//	 24- 27  reserved
//	 28- 31  LocalQKey
//	 32- 35  LocalQPN 24, ResponderResources 8
//	 36- 39  LocalEECN 24, InitiatorDepth 8
//	 40- 43  RemoteEECN 24, RemoteResponseTimeout 5, Transport 2, EndToEndFlowControl 1
//	 44- 47  StartingPSN 24, LocalResponseTimeout 5, RetryCount 3
//	 48- 49  PKey
//	 50      PathMTU 4, RDCExists 1, RNRRetryCount 3
//	 51      MaxCMRetries 4, SRQ 1, ExtendedTransport 3
//	 52- 95  Primary; reserved the last 3 bits
//	 96-139  Alternate; SAPSupported 1 and reserved 2 the last 3 bits
//	140-231  PrivateData
type REQ struct {
	LocalCommID           uint32 // the sender's handle of the connection; not 0
	VendorID              uint32 // 24 bits: vendor whose options Header.AttrMod holds; 0 for none
	ServiceID             ServiceID
	LocalCAGUID           uint64
	LocalQKey             ib.QKey // RD only
	LocalQPN              ib.QPN
	ResponderResources    uint8  // incoming READs and atomics that the sender can serve at once
	LocalEECN             uint32 // 24 bits: RD only
	InitiatorDepth        uint8  // READs and atomics that the sender will have outstanding
	RemoteEECN            uint32 // 24 bits: RD only
	RemoteResponseTimeout uint8  // 5 bits: Timeout code within which the receiver must answer
	Transport             TransportService
	EndToEndFlowControl   bool   // the sender's adapter gives credits in acknowledges
	StartingPSN           ib.PSN // first PSN that the receiver's queue pair sends
	LocalResponseTimeout  uint8  // 5 bits: Timeout code within which the sender will answer
	RetryCount            uint8  // 3 bits: of the queue pairs
	PKey                  ib.PKey
	PathMTU               ib.MTU // 4 bits
	RDCExists             bool   // RD only
	RNRRetryCount         uint8  // 3 bits: of the receiver's queue pair
	MaxCMRetries          uint8  // 4 bits: how often either side repeats a CM message
	SRQ                   bool   // the sender's queue pair has a shared receive queue
	ExtendedTransport     uint8  // 3 bits: ExtendedXRC, if Transport is TransportExtended
	Primary               Path
	Alternate             Path // all zero for none
	SAPSupported          bool // a bit of the alternate path; Linux sends 0
	PrivateData           [REQPrivateData]byte
}

// Decode sets every field from the data of m, without reading its header.
func (r *REQ) Decode(m *MAD) {
	d := m.Data()
	r.LocalCommID = binary.BigEndian.Uint32(d[0:])
	r.VendorID = binary.BigEndian.Uint32(d[4:]) & mask24
	r.ServiceID = ServiceID(binary.BigEndian.Uint64(d[8:]))
	r.LocalCAGUID = binary.BigEndian.Uint64(d[16:])
	r.LocalQKey = ib.QKey(binary.BigEndian.Uint32(d[28:]))
	r.decodeWords(d)
	r.PKey = ib.PKey(binary.BigEndian.Uint16(d[48:]))
	r.PathMTU = ib.MTU(d[50] >> 4)
	r.RDCExists = d[50]>>3&1 != 0
	r.RNRRetryCount = d[50] & mask3
	r.MaxCMRetries = d[51] >> 4
	r.SRQ = d[51]>>3&1 != 0
	r.ExtendedTransport = d[51] & mask3
	r.Primary.decodeREQ((*[pathLen]byte)(d[52:]))
	r.Alternate.decodeREQ((*[pathLen]byte)(d[96:]))
	r.SAPSupported = d[139]>>2&1 != 0
	r.PrivateData = [REQPrivateData]byte(d[140:])
}

// decodeWords reads bytes 32 to 47: four words of 24 and 8 bits.
func (r *REQ) decodeWords(d *[DataSize]byte) {
	high, low := word24(d[32:])
	r.LocalQPN, r.ResponderResources = ib.QPN(high), low
	r.LocalEECN, r.InitiatorDepth = word24(d[36:])
	r.RemoteEECN, low = word24(d[40:])
	r.RemoteResponseTimeout = low >> 3
	r.Transport = TransportService(low >> 1 & mask2)
	r.EndToEndFlowControl = low&1 != 0
	high, low = word24(d[44:])
	r.StartingPSN = ib.NewPSN(high)
	r.LocalResponseTimeout, r.RetryCount = low>>3, low&mask3
}

// Put writes the data of m but not its header, which is CMHeader(AttrREQ, tid).
func (r *REQ) Put(m *MAD) {
	d := m.Data()
	clear(d[:])
	binary.BigEndian.PutUint32(d[0:], r.LocalCommID)
	binary.BigEndian.PutUint32(d[4:], r.VendorID&mask24)
	binary.BigEndian.PutUint64(d[8:], uint64(r.ServiceID))
	binary.BigEndian.PutUint64(d[16:], r.LocalCAGUID)
	binary.BigEndian.PutUint32(d[28:], uint32(r.LocalQKey))
	r.putWords(d)
	binary.BigEndian.PutUint16(d[48:], uint16(r.PKey))
	d[50] = byte(r.PathMTU)<<4 | bit(r.RDCExists)<<3 | r.RNRRetryCount&mask3
	d[51] = r.MaxCMRetries<<4 | bit(r.SRQ)<<3 | r.ExtendedTransport&mask3
	r.Primary.putREQ((*[pathLen]byte)(d[52:]))
	r.Alternate.putREQ((*[pathLen]byte)(d[96:]))
	d[139] |= bit(r.SAPSupported) << 2
	copy(d[140:], r.PrivateData[:])
}

func (r *REQ) putWords(d *[DataSize]byte) {
	putWord24(d[32:], uint32(r.LocalQPN), r.ResponderResources)
	putWord24(d[36:], r.LocalEECN, r.InitiatorDepth)
	putWord24(d[40:], r.RemoteEECN,
		r.RemoteResponseTimeout<<3|byte(r.Transport)&mask2<<1|bit(r.EndToEndFlowControl))
	putWord24(d[44:], r.StartingPSN.Value(), r.LocalResponseTimeout<<3|r.RetryCount&mask3)
}

// TransportService is the service that a REQ asks for, 2 bits.
type TransportService uint8

// The services.
const (
	TransportRC TransportService = iota
	TransportUC
	TransportRD
	TransportExtended // REQ.ExtendedTransport says which
)

// ExtendedXRC is the extended transport that has a number.
const ExtendedXRC = 1

var transportNames = [...]string{"RC", "UC", "RD", "extended"}

// String returns the name of the service, such as "RC".
func (t TransportService) String() string { return name(transportNames[:], int(t), "TransportService") }
