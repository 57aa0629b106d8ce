package roce

import "strconv"

// Opcode is the first byte of a packet: the service in bits 7 to 5, the
// operation in bits 4 to 0.
type Opcode uint8

// The opcodes of the reliable connection service.
const (
	RCSendFirst              Opcode = 0x00
	RCSendMiddle             Opcode = 0x01
	RCSendLast               Opcode = 0x02
	RCSendLastWithImm        Opcode = 0x03
	RCSendOnly               Opcode = 0x04
	RCSendOnlyWithImm        Opcode = 0x05
	RCRDMAWriteFirst         Opcode = 0x06
	RCRDMAWriteMiddle        Opcode = 0x07
	RCRDMAWriteLast          Opcode = 0x08
	RCRDMAWriteLastWithImm   Opcode = 0x09
	RCRDMAWriteOnly          Opcode = 0x0a
	RCRDMAWriteOnlyWithImm   Opcode = 0x0b
	RCRDMAReadRequest        Opcode = 0x0c
	RCRDMAReadResponseFirst  Opcode = 0x0d
	RCRDMAReadResponseMiddle Opcode = 0x0e
	RCRDMAReadResponseLast   Opcode = 0x0f
	RCRDMAReadResponseOnly   Opcode = 0x10
	RCAcknowledge            Opcode = 0x11
	RCAtomicAcknowledge      Opcode = 0x12
	RCCompareSwap            Opcode = 0x13
	RCFetchAdd               Opcode = 0x14
	RCSendLastWithInvalidate Opcode = 0x16
	RCSendOnlyWithInvalidate Opcode = 0x17
	RCFlush                  Opcode = 0x1c
	RCAtomicWrite            Opcode = 0x1d
)

// The opcodes of the unreliable connection service.
const (
	UCSendFirst            Opcode = 0x20
	UCSendMiddle           Opcode = 0x21
	UCSendLast             Opcode = 0x22
	UCSendLastWithImm      Opcode = 0x23
	UCSendOnly             Opcode = 0x24
	UCSendOnlyWithImm      Opcode = 0x25
	UCRDMAWriteFirst       Opcode = 0x26
	UCRDMAWriteMiddle      Opcode = 0x27
	UCRDMAWriteLast        Opcode = 0x28
	UCRDMAWriteLastWithImm Opcode = 0x29
	UCRDMAWriteOnly        Opcode = 0x2a
	UCRDMAWriteOnlyWithImm Opcode = 0x2b
)

// The opcodes of the reliable datagram service.
const (
	RDSendFirst              Opcode = 0x40
	RDSendMiddle             Opcode = 0x41
	RDSendLast               Opcode = 0x42
	RDSendLastWithImm        Opcode = 0x43
	RDSendOnly               Opcode = 0x44
	RDSendOnlyWithImm        Opcode = 0x45
	RDRDMAWriteFirst         Opcode = 0x46
	RDRDMAWriteMiddle        Opcode = 0x47
	RDRDMAWriteLast          Opcode = 0x48
	RDRDMAWriteLastWithImm   Opcode = 0x49
	RDRDMAWriteOnly          Opcode = 0x4a
	RDRDMAWriteOnlyWithImm   Opcode = 0x4b
	RDRDMAReadRequest        Opcode = 0x4c
	RDRDMAReadResponseFirst  Opcode = 0x4d
	RDRDMAReadResponseMiddle Opcode = 0x4e
	RDRDMAReadResponseLast   Opcode = 0x4f
	RDRDMAReadResponseOnly   Opcode = 0x50
	RDAcknowledge            Opcode = 0x51
	RDAtomicAcknowledge      Opcode = 0x52
	RDCompareSwap            Opcode = 0x53
	RDFetchAdd               Opcode = 0x54
	RDResync                 Opcode = 0x55
	RDFlush                  Opcode = 0x5c
)

// The opcodes of the unreliable datagram service.
const (
	UDSendOnly        Opcode = 0x64
	UDSendOnlyWithImm Opcode = 0x65
)

// CNP is the congestion notification packet of RoCEv2 (IBA annex A17).
const CNP Opcode = 0x81

// The opcodes of the extended reliable connection service.
const (
	XRCSendFirst              Opcode = 0xa0
	XRCSendMiddle             Opcode = 0xa1
	XRCSendLast               Opcode = 0xa2
	XRCSendLastWithImm        Opcode = 0xa3
	XRCSendOnly               Opcode = 0xa4
	XRCSendOnlyWithImm        Opcode = 0xa5
	XRCRDMAWriteFirst         Opcode = 0xa6
	XRCRDMAWriteMiddle        Opcode = 0xa7
	XRCRDMAWriteLast          Opcode = 0xa8
	XRCRDMAWriteLastWithImm   Opcode = 0xa9
	XRCRDMAWriteOnly          Opcode = 0xaa
	XRCRDMAWriteOnlyWithImm   Opcode = 0xab
	XRCRDMAReadRequest        Opcode = 0xac
	XRCRDMAReadResponseFirst  Opcode = 0xad
	XRCRDMAReadResponseMiddle Opcode = 0xae
	XRCRDMAReadResponseLast   Opcode = 0xaf
	XRCRDMAReadResponseOnly   Opcode = 0xb0
	XRCAcknowledge            Opcode = 0xb1
	XRCAtomicAcknowledge      Opcode = 0xb2
	XRCCompareSwap            Opcode = 0xb3
	XRCFetchAdd               Opcode = 0xb4
	XRCSendLastWithInvalidate Opcode = 0xb6
	XRCSendOnlyWithInvalidate Opcode = 0xb7
	XRCFlush                  Opcode = 0xbc
	XRCAtomicWrite            Opcode = 0xbd
)

// Info returns the row of the opcode table. It is never nil and must not be
// written to; for an unassigned opcode Known is false.
func (o Opcode) Info() *OpInfo { return &opTable[o] }

// Service returns the transport service of the opcode, assigned or not.
func (o Opcode) Service() Service { return Service(o >> 5) }

// String returns the name of the opcode, such as "RC_SEND_ONLY", or
// "UNKNOWN_0x1f" for one that is not assigned.
func (o Opcode) String() string {
	if info := o.Info(); info.Known {
		return info.Name
	}
	s := strconv.FormatUint(uint64(o), 16)
	if o < 0x10 {
		s = "0" + s
	}
	return "UNKNOWN_0x" + s
}
