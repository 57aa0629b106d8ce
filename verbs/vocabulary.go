package verbs

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca"
)

// The structures that package ib has in common for all packages.
type (
	// RecvWR is a receive work request. Posting copies it; the memory that SGList
	// names belongs to the adapter until the request completes.
	//
	//	type RecvWR struct {
	//		WRID   uint64
	//		SGList []SGE
	//	}
	RecvWR = ib.RecvWR

	// SGE is a scatter/gather element: Length bytes at Addr of the region LKey; see
	// MR.SGE.
	//
	//	type SGE struct {
	//		Addr   uint64
	//		Length uint32
	//		LKey   LKey
	//	}
	SGE = ib.SGE

	// WC is a work completion. With a status other than SUCCESS only WRID, Status,
	// QPN and VendorErr are valid; Err has them with what they mean. The page
	// docs/statuses.md tells of each status how it comes about and what to check.
	//
	//	type WC struct {
	//		WRID         uint64
	//		Status       WCStatus
	//		Opcode       WCOpcode
	//		Flags        WCFlags
	//		SL           uint8  // UD receives: SLIPv4 or SLIPv6
	//		ByteLen      uint32 // bytes received, read or sent; UD receives count the 40-byte GRH area
	//		VendorErr    uint32
	//		ImmData      uint32 // host order
	//		InvRKey      RKey
	//		QPN          QPN  // the local QP
	//		SrcQP        QPN  // UD and RD receives: the sender's QP
	//		EEC          EECN // RD receives: the local EE context
	//		PKeyIndex    uint16
	//		SLID         uint16
	//		DLIDPathBits uint8
	//	}
	//	func (wc WC) Err() error
	WC = ib.WC

	// WCError is a work request that failed. It unwraps to the status, so that
	// errors.Is(err, WCRetryExcErr) works, and its text says what that means and what
	// to look at.
	//
	//	type WCError struct {
	//		WRID      uint64
	//		Status    WCStatus
	//		VendorErr uint32
	//		QPN       QPN // the local QP
	//	}
	//	func (e WCError) Error() string
	//	func (e WCError) Unwrap() error
	WCError = ib.WCError

	// QPAttr holds the attributes of a queue pair, or of an EE context. Of a modify call only the fields
	// count that the mask names.
	//
	//	type QPAttr struct {
	//		State            QPState
	//		CurState         QPState
	//		PathMTU          MTU
	//		PathMigState     MigState
	//		QKey             QKey
	//		RQPSN            PSN    // next expected; Query gives the current one
	//		SQPSN            PSN    // next to send; Query gives the current one
	//		DestQPN          QPN    // of an EE context: the number of the one at the other end
	//		AccessFlags      Access // REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC
	//		Cap              QPCap
	//		AV               AHAttr
	//		AltAV            AHAttr
	//		PKeyIndex        uint16
	//		AltPKeyIndex     uint16
	//		EnSQDAsyncNotify bool
	//		SQDraining       bool  // Query only
	//		MaxRDAtomic      uint8 // READs and atomics outstanding as requester
	//		MaxDestRDAtomic  uint8 // READs and atomics kept as responder
	//		MinRNRTimer      uint8 // RNR timer code, 0..31
	//		Port             uint8 // from 1
	//		Timeout          uint8 // local ACK timeout code, 0..31; 0 is never
	//		RetryCnt         uint8 // 0..7
	//		RNRRetry         uint8 // 0..7; 7 is for ever
	//		AltPort          uint8
	//		AltTimeout       uint8
	//		RateLimit        uint32 // kbit/s
	//	}
	QPAttr = ib.QPAttr

	// QPCap holds the sizes of a queue pair. In CreateQP they are the least that is
	// asked for; the actual sizes, never less, are returned.
	//
	//	type QPCap struct {
	//		MaxSendWR     uint32 // entries of the send queue
	//		MaxRecvWR     uint32 // entries of the receive queue
	//		MaxSendSGE    uint32 // gather elements of a send work request
	//		MaxRecvSGE    uint32 // scatter elements of a receive work request
	//		MaxInlineData uint32 // bytes of inline data of a send work request
	//	}
	QPCap = ib.QPCap

	// AHAttr is an address vector: the way to a remote port.
	//
	//	type AHAttr struct {
	//		DGID         GID    // destination
	//		FlowLabel    uint32 // 20 bits; chooses the UDP source port
	//		SGIDIndex    uint8  // entry of the port's GID table to send from
	//		HopLimit     uint8  // IPv4 TTL or IPv6 hop limit; at least 1
	//		TrafficClass uint8  // IPv4 TOS or IPv6 traffic class
	//		SL           uint8  // service level; kept, without effect on Ethernet
	//		StaticRate   Rate   // most that packets may fill of the link
	//		Port         uint8  // physical port, from 1
	//	}
	AHAttr = ib.AHAttr
)

// The numbers of the verbs, from package ib. String gives the name that rdma-core
// has for a number, without its prefix.
type (
	// WROpcode is the operation of a send work request.
	//
	//	func (o WROpcode) String() string
	WROpcode = ib.WROpcode
	// SendFlags modify a send work request.
	SendFlags = ib.SendFlags
	// WCStatus is the outcome of a work request.
	//
	//	func (s WCStatus) Error() string
	//	func (s WCStatus) String() string
	WCStatus = ib.WCStatus
	// WCOpcode says which operation a completion belongs to.
	//
	//	func (o WCOpcode) String() string
	WCOpcode = ib.WCOpcode
	// WCFlags say which optional fields of a completion are valid.
	WCFlags = ib.WCFlags
	// Access is a set of access rights.
	//
	//	func (a Access) String() string
	Access = ib.Access
	// QPType is the transport service of a queue pair.
	//
	//	func (t QPType) String() string
	QPType = ib.QPType
	// QPState is the state of a queue pair.
	//
	//	func (s QPState) String() string
	QPState = ib.QPState
	// SigType says which send work requests complete with an entry.
	SigType = ib.SigType
	// AttrMask names attributes of a queue pair.
	//
	//	func (m AttrMask) Names() []string
	//	func (m AttrMask) String() string
	AttrMask = ib.AttrMask
	// EECN is the number of an EE context.
	//
	//	func (n EECN) String() string
	EECN = ib.EECN
	// EventType is the kind of an asynchronous event.
	//
	//	func (e EventType) OfEEC() EventType
	//	func (e EventType) String() string
	EventType = ib.EventType
)

// The operations of SendWR.Opcode.
const (
	WRSend, WRSendWithImm, WRSendWithInv, WRRDMAWrite, WRRDMAWriteWithImm, WRRDMARead        = ib.WRSend, ib.WRSendWithImm, ib.WRSendWithInv, ib.WRRDMAWrite, ib.WRRDMAWriteWithImm, ib.WRRDMARead
	WRAtomicCmpAndSwp, WRAtomicFetchAdd, WRAtomicWrite, WRLocalInv, WRBindMW, WRTSO, WRFlush = ib.WRAtomicCmpAndSwp, ib.WRAtomicFetchAdd, ib.WRAtomicWrite, ib.WRLocalInv, ib.WRBindMW, ib.WRTSO, ib.WRFlush
)

// The flags of SendWR.Flags: wait for earlier READs and atomics; complete with an
// entry in the CQ; raise a solicited event at the peer; the payload is InlineData.
const SendFence, SendSignaled, SendSolicited, SendInline = ib.SendFence, ib.SendSignaled, ib.SendSolicited, ib.SendInline

// The statuses of WC.Status.
const (
	WCSuccess, WCLocLenErr, WCLocQPOpErr, WCLocEECOpErr, WCLocProtErr            = ib.WCSuccess, ib.WCLocLenErr, ib.WCLocQPOpErr, ib.WCLocEECOpErr, ib.WCLocProtErr
	WCWRFlushErr, WCMWBindErr, WCBadRespErr, WCLocAccessErr, WCRemInvReqErr      = ib.WCWRFlushErr, ib.WCMWBindErr, ib.WCBadRespErr, ib.WCLocAccessErr, ib.WCRemInvReqErr
	WCRemAccessErr, WCRemOpErr, WCRetryExcErr, WCRNRRetryExcErr, WCLocRDDViolErr = ib.WCRemAccessErr, ib.WCRemOpErr, ib.WCRetryExcErr, ib.WCRNRRetryExcErr, ib.WCLocRDDViolErr
	WCRemInvRDReqErr, WCRemAbortErr, WCInvEECNErr, WCInvEECStateErr, WCFatalErr  = ib.WCRemInvRDReqErr, ib.WCRemAbortErr, ib.WCInvEECNErr, ib.WCInvEECStateErr, ib.WCFatalErr
	WCRespTimeoutErr, WCGeneralErr, WCTMErr, WCTMRndvIncomplete                  = ib.WCRespTimeoutErr, ib.WCGeneralErr, ib.WCTMErr, ib.WCTMRndvIncomplete
)

// The operations of WC.Opcode.
const (
	WCSend, WCRDMAWrite, WCRDMARead, WCCompSwap, WCFetchAdd = ib.WCSend, ib.WCRDMAWrite, ib.WCRDMARead, ib.WCCompSwap, ib.WCFetchAdd
	WCBindMW, WCLocalInv, WCTSO, WCFlush, WCAtomicWrite     = ib.WCBindMW, ib.WCLocalInv, ib.WCTSO, ib.WCFlush, ib.WCAtomicWrite
	WCRecv, WCRecvRDMAWithImm                               = ib.WCRecv, ib.WCRecvRDMAWithImm
)

// The flags of WC.Flags: the first 40 bytes of a UD receive are the GRH area; ImmData
// is valid; the checksums were right; InvRKey is valid.
const WCGRH, WCWithImm, WCIPCsumOK, WCWithInv = ib.WCGRH, ib.WCWithImm, ib.WCIPCsumOK, ib.WCWithInv

// The access rights. Local read is always granted; AccessRemote is every right that
// a peer can use.
const (
	AccessLocalWrite, AccessRemoteWrite, AccessRemoteRead, AccessRemoteAtomic, AccessRemote = ib.AccessLocalWrite, ib.AccessRemoteWrite, ib.AccessRemoteRead, ib.AccessRemoteAtomic, ib.AccessRemote
	AccessMWBind, AccessZeroBased, AccessOnDemand, AccessHugeTLB                            = ib.AccessMWBind, ib.AccessZeroBased, ib.AccessOnDemand, ib.AccessHugeTLB
	AccessFlushGlobal, AccessFlushPersistent, AccessRelaxedOrdering                         = ib.AccessFlushGlobal, ib.AccessFlushPersistent, ib.AccessRelaxedOrdering
)

// The services: reliable connection, unreliable connection, unreliable datagram,
// reliable datagram.
const RC, UC, UD, RD = ib.RC, ib.UC, ib.UD, ib.RD

// The states of a queue pair. The device itself enters only SQE and ERR.
const RESET, INIT, RTR, RTS, SQD, SQE, ERR = ib.RESET, ib.INIT, ib.RTR, ib.RTS, ib.SQD, ib.SQE, ib.ERR

// Which send work requests complete with an entry: those with SendSignaled, or all.
const SigPerWR, SigAll = ib.SigPerWR, ib.SigAll

// The attributes that a modify call names.
const (
	AttrState, AttrCurState, AttrEnSQDAsyncNotify, AttrAccessFlags, AttrPKeyIndex, AttrPort  = ib.AttrState, ib.AttrCurState, ib.AttrEnSQDAsyncNotify, ib.AttrAccessFlags, ib.AttrPKeyIndex, ib.AttrPort
	AttrQKey, AttrAV, AttrPathMTU, AttrTimeout, AttrRetryCnt, AttrRNRRetry                   = ib.AttrQKey, ib.AttrAV, ib.AttrPathMTU, ib.AttrTimeout, ib.AttrRetryCnt, ib.AttrRNRRetry
	AttrRQPSN, AttrMaxRDAtomic, AttrMinRNRTimer, AttrSQPSN, AttrMaxDestRDAtomic, AttrDestQPN = ib.AttrRQPSN, ib.AttrMaxRDAtomic, ib.AttrMinRNRTimer, ib.AttrSQPSN, ib.AttrMaxDestRDAtomic, ib.AttrDestQPN
	AttrCap, AttrAltPath, AttrPathMigState, AttrRateLimit                                    = ib.AttrCap, ib.AttrAltPath, ib.AttrPathMigState, ib.AttrRateLimit
)

// The path MTUs, named by their size in bytes.
const MTU256, MTU512, MTU1024, MTU2048, MTU4096 = ib.MTU256, ib.MTU512, ib.MTU1024, ib.MTU2048, ib.MTU4096

// The asynchronous events.
const (
	EventCQErr, EventSRQErr, EventSRQLimitReached, EventDeviceFatal, EventPortActive, EventPortErr     = ib.EventCQErr, ib.EventSRQErr, ib.EventSRQLimitReached, ib.EventDeviceFatal, ib.EventPortActive, ib.EventPortErr
	EventQPFatal, EventQPReqErr, EventQPAccessErr, EventCommEst, EventSQDrained, EventQPLastWQEReached = ib.EventQPFatal, ib.EventQPReqErr, ib.EventQPAccessErr, ib.EventCommEst, ib.EventSQDrained, ib.EventQPLastWQEReached
	EventPathMig, EventPathMigErr, EventWQFatal, EventLIDChange, EventPKeyChange, EventSMChange        = ib.EventPathMig, ib.EventPathMigErr, ib.EventWQFatal, ib.EventLIDChange, ib.EventPKeyChange, ib.EventSMChange
	EventClientReregister, EventGIDChange                                                              = ib.EventClientReregister, ib.EventGIDChange
	EventEECFatal, EventEECCommEst, EventEECSQDrained, EventEECPathMig, EventEECPathMigErr             = ib.EventEECFatal, ib.EventEECCommEst, ib.EventEECSQDrained, ib.EventEECPathMig, ib.EventEECPathMigErr
)

// QPNMulticast is the destination QPN of a message to a multicast group.
const QPNMulticast = ib.QPNMulticast

// The ways in which creating an object fails. Each unwraps to an errno of its
// own kind: ENOMEM, ENODEV, EINVAL or EOPNOTSUPP.
var (
	ErrInsufficientResources error = hca.ErrNoResources
	ErrInvalidPD             error = hca.ErrInvalidPD
	ErrInvalidCQ             error = hca.ErrInvalidCQ
	ErrInvalidSRQ            error = hca.ErrInvalidSRQ
	ErrInvalidServiceType    error = hca.ErrInvalidServiceType
	ErrInvalidRDD            error = hca.ErrInvalidRDD
	ErrTooManyWRs            error = hca.ErrTooManyWRs
	ErrTooManySGEs           error = hca.ErrTooManySGEs
	ErrTooMuchInline         error = hca.ErrTooMuchInline
	// ErrBusy says that an object still serves others, or that events about
	// it were taken but not acknowledged. It unwraps to EBUSY.
	ErrBusy error = hca.ErrBusy
)
