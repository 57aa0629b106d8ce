package mad

import "github.com/softhca/softhca/ib"

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

// layout has the places of the fields.
func (r *REQ) layout(l layout) {
	u32(l, 0, &r.LocalCommID)
	part(l, 4, 8, 24, &r.VendorID)
	u64(l, 8, &r.ServiceID)
	u64(l, 16, &r.LocalCAGUID)
	u32(l, 28, &r.LocalQKey)
	u24(l, 32, &r.LocalQPN)
	u8(l, 35, &r.ResponderResources)
	u24(l, 36, &r.LocalEECN)
	u8(l, 39, &r.InitiatorDepth)
	u24(l, 40, &r.RemoteEECN)
	part(l, 40, 24, 5, &r.RemoteResponseTimeout)
	part(l, 40, 29, 2, &r.Transport)
	l.flag(40, 31, &r.EndToEndFlowControl)
	l.psn(44, &r.StartingPSN)
	part(l, 44, 24, 5, &r.LocalResponseTimeout)
	part(l, 44, 29, 3, &r.RetryCount)
	part(l, 48, 0, 16, &r.PKey)
	part(l, 48, 16, 4, &r.PathMTU)
	l.flag(48, 20, &r.RDCExists)
	part(l, 48, 21, 3, &r.RNRRetryCount)
	part(l, 48, 24, 4, &r.MaxCMRetries)
	l.flag(48, 28, &r.SRQ)
	part(l, 48, 29, 3, &r.ExtendedTransport)
	r.Primary.layout(l.from(52), false)
	r.Alternate.layout(l.from(96), false)
	l.flag(136, 29, &r.SAPSupported)
	l.bytes(140, r.PrivateData[:])
}

// Decode sets every field from the data of m, without reading its header.
func (r *REQ) Decode(m *MAD) { r.layout(m.reading()) }

// Put writes the data of m but not its header, which is CMHeader(AttrREQ, tid).
func (r *REQ) Put(m *MAD) { r.layout(m.writing()) }

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
