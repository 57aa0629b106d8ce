package ib

// WCStatus is the outcome of a work request.
type WCStatus uint8

// The statuses, with the values of enum ibv_wc_status.
const (
	WCSuccess          WCStatus = iota // the request is complete
	WCLocLenErr                        // a length does not fit the receive, the MTU or the READ
	WCLocQPOpErr                       // the adapter cannot carry out the request as posted
	WCLocEECOpErr                      // the EE context failed while it carried out the request
	WCLocProtErr                       // an element of the SGList is outside of the memory that it names
	WCWRFlushErr                       // not carried out: the QP is in ERR or SQE
	WCMWBindErr                        // the memory window was not bound
	WCBadRespErr                       // the peer sent a response that does not fit the request
	WCLocAccessErr                     // a receive could not write its memory
	WCRemInvReqErr                     // the peer refused the request as invalid
	WCRemAccessErr                     // the peer refused the access: key, address, length or right
	WCRemOpErr                         // the peer failed to complete the request
	WCRetryExcErr                      // the peer did not acknowledge, even after RetryCnt retries
	WCRNRRetryExcErr                   // the peer had no receive, even after RNRRetry retries
	WCLocRDDViolErr                    // QP and EE context are of different domains
	WCRemInvRDReqErr                   // the peer refused the reliable datagram
	WCRemAbortErr                      // the peer aborted the message
	WCInvEECNErr                       // no EE context has this number
	WCInvEECStateErr                   // the EE context is in a state that does not send
	WCFatalErr                         // the adapter has failed
	WCRespTimeoutErr                   // a timer of the responder expired
	WCGeneralErr                       // the adapter gives no reason
	WCTMErr                            // an error of tag matching
	WCTMRndvIncomplete                 // tag matching: software must finish the rendezvous
)

var wcStatusNames = [...]string{
	"SUCCESS", "LOC_LEN_ERR", "LOC_QP_OP_ERR", "LOC_EEC_OP_ERR", "LOC_PROT_ERR",
	"WR_FLUSH_ERR", "MW_BIND_ERR", "BAD_RESP_ERR", "LOC_ACCESS_ERR", "REM_INV_REQ_ERR",
	"REM_ACCESS_ERR", "REM_OP_ERR", "RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR",
	"LOC_RDD_VIOL_ERR", "REM_INV_RD_REQ_ERR", "REM_ABORT_ERR", "INV_EECN_ERR",
	"INV_EEC_STATE_ERR", "FATAL_ERR", "RESP_TIMEOUT_ERR", "GENERAL_ERR", "TM_ERR",
	"TM_RNDV_INCOMPLETE",
}

// WCOpcode says which operation a completion belongs to. On an error
// completion it is undefined.
type WCOpcode uint8

// The completion opcodes, with the values of enum ibv_wc_opcode.
const (
	WCSend            WCOpcode = 0   // SEND, with or without immediate data or invalidation
	WCRDMAWrite       WCOpcode = 1   // RDMA WRITE, with or without immediate data
	WCRDMARead        WCOpcode = 2   // RDMA READ
	WCCompSwap        WCOpcode = 3   // COMPARE&SWAP
	WCFetchAdd        WCOpcode = 4   // FETCH&ADD
	WCBindMW          WCOpcode = 5   // binding of a memory window
	WCLocalInv        WCOpcode = 6   // local invalidation
	WCTSO             WCOpcode = 7   // segmented send
	WCFlush           WCOpcode = 8   // FLUSH
	WCAtomicWrite     WCOpcode = 9   // ATOMIC WRITE
	WCRecv            WCOpcode = 128 // receive of a SEND
	WCRecvRDMAWithImm WCOpcode = 129 // receive of an RDMA WRITE with immediate data
)

// WCFlags say which optional fields of a completion are valid.
type WCFlags uint8

// The flags, with the values of enum ibv_wc_flags.
const (
	WCGRH      WCFlags = 1 << 0 // the first 40 bytes of a UD receive are the GRH area
	WCWithImm  WCFlags = 1 << 1 // ImmData is valid
	WCIPCsumOK WCFlags = 1 << 2 // the IP checksums were right
	WCWithInv  WCFlags = 1 << 3 // InvRKey is valid
)

// RoCE v2 has no service levels. The SL of a UD receive says instead which IP
// header the GRH area has, as ConnectX adapters do: bit 3 that UDP follows, the
// others the kind of header. Programs rely on it, since the bytes of the area that
// an IPv4 header leaves may hold anything.
const (
	SLIPv6 uint8 = 1<<3 | 1
	SLIPv4 uint8 = 1<<3 | 2
)

// VendorErrFault is the VendorErr of a request that a fault on demand has made fail.
const VendorErrFault = 0xfa17

// WC is a work completion. With a status other than SUCCESS only WRID,
// Status, QPN and VendorErr are valid. It holds no pointer.
type WC struct {
	WRID         uint64
	Status       WCStatus
	Opcode       WCOpcode
	Flags        WCFlags
	SL           uint8  // UD receives: SLIPv4 or SLIPv6
	ByteLen      uint32 // bytes received, read or sent; UD receives count the 40-byte GRH area
	VendorErr    uint32
	ImmData      uint32 // host order
	InvRKey      RKey
	QPN          QPN  // the local QP
	SrcQP        QPN  // UD and RD receives: the sender's QP
	EEC          EECN // RD receives: the local EE context
	PKeyIndex    uint16
	SLID         uint16
	DLIDPathBits uint8
}
