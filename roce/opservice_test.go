package roce

import "testing"

// TestOpcodesOfOtherServices shows that an operation has the same number in
// every service but for the upper three bits, those that no code uses too.
func TestOpcodesOfOtherServices(t *testing.T) {
	for _, c := range []struct {
		service Opcode
		pairs   [][2]Opcode // of the service and of RC
	}{
		{0x20, [][2]Opcode{
			{UCSendFirst, RCSendFirst}, {UCSendMiddle, RCSendMiddle}, {UCSendLast, RCSendLast},
			{UCSendLastWithImm, RCSendLastWithImm}, {UCSendOnly, RCSendOnly}, {UCSendOnlyWithImm, RCSendOnlyWithImm},
			{UCRDMAWriteFirst, RCRDMAWriteFirst}, {UCRDMAWriteMiddle, RCRDMAWriteMiddle}, {UCRDMAWriteLast, RCRDMAWriteLast},
			{UCRDMAWriteLastWithImm, RCRDMAWriteLastWithImm}, {UCRDMAWriteOnly, RCRDMAWriteOnly}, {UCRDMAWriteOnlyWithImm, RCRDMAWriteOnlyWithImm},
		}},
		{0x40, [][2]Opcode{
			{RDSendFirst, RCSendFirst}, {RDSendMiddle, RCSendMiddle}, {RDSendLast, RCSendLast},
			{RDSendLastWithImm, RCSendLastWithImm}, {RDSendOnly, RCSendOnly}, {RDSendOnlyWithImm, RCSendOnlyWithImm},
			{RDRDMAWriteFirst, RCRDMAWriteFirst}, {RDRDMAWriteMiddle, RCRDMAWriteMiddle}, {RDRDMAWriteLast, RCRDMAWriteLast},
			{RDRDMAWriteLastWithImm, RCRDMAWriteLastWithImm}, {RDRDMAWriteOnly, RCRDMAWriteOnly}, {RDRDMAWriteOnlyWithImm, RCRDMAWriteOnlyWithImm},
			{RDRDMAReadRequest, RCRDMAReadRequest}, {RDRDMAReadResponseFirst, RCRDMAReadResponseFirst}, {RDRDMAReadResponseMiddle, RCRDMAReadResponseMiddle},
			{RDRDMAReadResponseLast, RCRDMAReadResponseLast}, {RDRDMAReadResponseOnly, RCRDMAReadResponseOnly}, {RDAcknowledge, RCAcknowledge},
			{RDAtomicAcknowledge, RCAtomicAcknowledge}, {RDCompareSwap, RCCompareSwap}, {RDFetchAdd, RCFetchAdd},
			{RDFlush, RCFlush},
		}},
		{0x60, [][2]Opcode{
			{UDSendOnly, RCSendOnly}, {UDSendOnlyWithImm, RCSendOnlyWithImm},
		}},
		{0xa0, [][2]Opcode{
			{XRCSendFirst, RCSendFirst}, {XRCSendMiddle, RCSendMiddle}, {XRCSendLast, RCSendLast},
			{XRCSendLastWithImm, RCSendLastWithImm}, {XRCSendOnly, RCSendOnly}, {XRCSendOnlyWithImm, RCSendOnlyWithImm},
			{XRCRDMAWriteFirst, RCRDMAWriteFirst}, {XRCRDMAWriteMiddle, RCRDMAWriteMiddle}, {XRCRDMAWriteLast, RCRDMAWriteLast},
			{XRCRDMAWriteLastWithImm, RCRDMAWriteLastWithImm}, {XRCRDMAWriteOnly, RCRDMAWriteOnly}, {XRCRDMAWriteOnlyWithImm, RCRDMAWriteOnlyWithImm},
			{XRCRDMAReadRequest, RCRDMAReadRequest}, {XRCRDMAReadResponseFirst, RCRDMAReadResponseFirst}, {XRCRDMAReadResponseMiddle, RCRDMAReadResponseMiddle},
			{XRCRDMAReadResponseLast, RCRDMAReadResponseLast}, {XRCRDMAReadResponseOnly, RCRDMAReadResponseOnly}, {XRCAcknowledge, RCAcknowledge},
			{XRCAtomicAcknowledge, RCAtomicAcknowledge}, {XRCCompareSwap, RCCompareSwap}, {XRCFetchAdd, RCFetchAdd},
			{XRCSendLastWithInvalidate, RCSendLastWithInvalidate}, {XRCSendOnlyWithInvalidate, RCSendOnlyWithInvalidate}, {XRCFlush, RCFlush},
			{XRCAtomicWrite, RCAtomicWrite},
		}},
	} {
		for _, p := range c.pairs {
			if p[0] != c.service|p[1] {
				t.Errorf("%#02x is not %v in the service %#02x", uint8(p[0]), p[1], uint8(c.service))
			}
		}
	}
}
