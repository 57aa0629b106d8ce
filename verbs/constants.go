package verbs

import "github.com/softhca/softhca/ib"

// The operations of SendWR.Opcode.
const (
	WRRDMAWrite        WROpcode = ib.WRRDMAWrite        // writes to memory of the peer
	WRRDMAWriteWithImm WROpcode = ib.WRRDMAWriteWithImm // writes to memory of the peer, and completes one of its receives
	WRSend             WROpcode = ib.WRSend             // message to a receive of the peer
	WRSendWithImm      WROpcode = ib.WRSendWithImm      // message with 4 bytes of immediate data
	WRRDMARead         WROpcode = ib.WRRDMARead         // reads memory of the peer
	WRAtomicCmpAndSwp  WROpcode = ib.WRAtomicCmpAndSwp  // replaces 8 bytes of the peer with Swap if they equal CompareAdd
	WRAtomicFetchAdd   WROpcode = ib.WRAtomicFetchAdd   // adds CompareAdd to 8 bytes of the peer
	WRLocalInv         WROpcode = ib.WRLocalInv         // invalidates a local key
	WRBindMW           WROpcode = ib.WRBindMW           // binds a memory window
	WRSendWithInv      WROpcode = ib.WRSendWithInv      // message that invalidates InvRKey at the peer
	WRTSO              WROpcode = ib.WRTSO              // segmented send
	WRFlush            WROpcode = ib.WRFlush            // flushes earlier writes to memory of the peer
	WRAtomicWrite      WROpcode = ib.WRAtomicWrite      // writes 8 bytes of the peer atomically
)

// The flags of SendWR.Flags.
const (
	SendFence     SendFlags = ib.SendFence     // waits for earlier READs and atomics
	SendSignaled  SendFlags = ib.SendSignaled  // completes with an entry in the CQ
	SendSolicited SendFlags = ib.SendSolicited // raises a solicited event at the peer
	SendInline    SendFlags = ib.SendInline    // the payload is InlineData, copied by the post
)

// The statuses of WC.Status. The page docs/statuses.md says how each comes about.
const (
	WCSuccess          WCStatus = ib.WCSuccess          // the request is complete
	WCLocLenErr        WCStatus = ib.WCLocLenErr        // a length does not fit the receive, the MTU or the READ
	WCLocQPOpErr       WCStatus = ib.WCLocQPOpErr       // the adapter cannot carry out the request as posted
	WCLocEECOpErr      WCStatus = ib.WCLocEECOpErr      // the EE context failed while it carried out the request
	WCLocProtErr       WCStatus = ib.WCLocProtErr       // an element of the SGList is outside of the memory that it names
	WCWRFlushErr       WCStatus = ib.WCWRFlushErr       // not carried out: the QP is in ERR or SQE
	WCMWBindErr        WCStatus = ib.WCMWBindErr        // the memory window was not bound
	WCBadRespErr       WCStatus = ib.WCBadRespErr       // the peer sent a response that does not fit the request
	WCLocAccessErr     WCStatus = ib.WCLocAccessErr     // a receive could not write its memory
	WCRemInvReqErr     WCStatus = ib.WCRemInvReqErr     // the peer refused the request as invalid
	WCRemAccessErr     WCStatus = ib.WCRemAccessErr     // the peer refused the access: key, address, length or right
	WCRemOpErr         WCStatus = ib.WCRemOpErr         // the peer failed to complete the request
	WCRetryExcErr      WCStatus = ib.WCRetryExcErr      // the peer did not acknowledge, even after RetryCnt retries
	WCRNRRetryExcErr   WCStatus = ib.WCRNRRetryExcErr   // the peer had no receive, even after RNRRetry retries
	WCLocRDDViolErr    WCStatus = ib.WCLocRDDViolErr    // QP and EE context are of different domains
	WCRemInvRDReqErr   WCStatus = ib.WCRemInvRDReqErr   // the peer refused the reliable datagram
	WCRemAbortErr      WCStatus = ib.WCRemAbortErr      // the peer aborted the message
	WCInvEECNErr       WCStatus = ib.WCInvEECNErr       // no EE context has this number
	WCInvEECStateErr   WCStatus = ib.WCInvEECStateErr   // the EE context is in a state that does not send
	WCFatalErr         WCStatus = ib.WCFatalErr         // the adapter has failed
	WCRespTimeoutErr   WCStatus = ib.WCRespTimeoutErr   // a timer of the responder expired
	WCGeneralErr       WCStatus = ib.WCGeneralErr       // the adapter gives no reason
	WCTMErr            WCStatus = ib.WCTMErr            // an error of tag matching
	WCTMRndvIncomplete WCStatus = ib.WCTMRndvIncomplete // tag matching: software must finish the rendezvous
)

// The operations of WC.Opcode.
const (
	WCSend            WCOpcode = ib.WCSend            // SEND, with or without immediate data or invalidation
	WCRDMAWrite       WCOpcode = ib.WCRDMAWrite       // RDMA WRITE, with or without immediate data
	WCRDMARead        WCOpcode = ib.WCRDMARead        // RDMA READ
	WCCompSwap        WCOpcode = ib.WCCompSwap        // COMPARE&SWAP
	WCFetchAdd        WCOpcode = ib.WCFetchAdd        // FETCH&ADD
	WCBindMW          WCOpcode = ib.WCBindMW          // binding of a memory window
	WCLocalInv        WCOpcode = ib.WCLocalInv        // local invalidation
	WCTSO             WCOpcode = ib.WCTSO             // segmented send
	WCFlush           WCOpcode = ib.WCFlush           // FLUSH
	WCAtomicWrite     WCOpcode = ib.WCAtomicWrite     // ATOMIC WRITE
	WCRecv            WCOpcode = ib.WCRecv            // receive of a SEND
	WCRecvRDMAWithImm WCOpcode = ib.WCRecvRDMAWithImm // receive of an RDMA WRITE with immediate data
)

// The flags of WC.Flags: which fields are valid.
const (
	WCGRH      WCFlags = ib.WCGRH      // the first 40 bytes of a UD receive are the GRH area
	WCWithImm  WCFlags = ib.WCWithImm  // ImmData is valid
	WCIPCsumOK WCFlags = ib.WCIPCsumOK // the IP checksums were right
	WCWithInv  WCFlags = ib.WCWithInv  // InvRKey is valid
)

// The access rights of MRs, and the remote ones of MWs and QPs. Local read is always granted.
const (
	AccessLocalWrite      Access = ib.AccessLocalWrite      // receives, READs and atomics may write to the region
	AccessRemoteWrite     Access = ib.AccessRemoteWrite     // peers may write with RDMA WRITE
	AccessRemoteRead      Access = ib.AccessRemoteRead      // peers may read with RDMA READ
	AccessRemoteAtomic    Access = ib.AccessRemoteAtomic    // peers may use COMPARE&SWAP and FETCH&ADD
	AccessMWBind          Access = ib.AccessMWBind          // memory windows may be bound to the region
	AccessZeroBased       Access = ib.AccessZeroBased       // addresses count from the start of the region
	AccessOnDemand        Access = ib.AccessOnDemand        // the memory is not pinned
	AccessHugeTLB         Access = ib.AccessHugeTLB         // the memory is in huge pages
	AccessFlushGlobal     Access = ib.AccessFlushGlobal     // peers may flush to global visibility
	AccessFlushPersistent Access = ib.AccessFlushPersistent // peers may flush to persistence
	AccessRelaxedOrdering Access = ib.AccessRelaxedOrdering // the bus may reorder writes
)

// The types of memory windows.
const (
	MWType1 MWType = ib.MWType1 // belongs to a protection domain
	MWType2 MWType = ib.MWType2 // belongs to the queue pair that it was bound on
)

// AccessRemote is every right that a remote peer can use.
const AccessRemote Access = ib.AccessRemote

// AccessFlush is every right to FLUSH. FLUSH_PERSISTENT needs memory that is mapped shared from
// a file on storage, not in tmpfs.
const AccessFlush Access = ib.AccessFlush

// The types of Flush.Type, which can be combined.
const (
	FlushGlobal     FlushType = ib.FlushGlobal     // earlier WRITEs are visible to every reader at the peer
	FlushPersistent FlushType = ib.FlushPersistent // earlier WRITEs survive a loss of power
)

// The levels of Flush.Level.
const (
	FlushRange  FlushLevel = ib.FlushRange  // the bytes of an address range
	FlushRegion FlushLevel = ib.FlushRegion // the whole region; address and length are ignored
)

// The services of queue pairs.
const (
	RC QPType = ib.RC // reliable connection
	UC QPType = ib.UC // unreliable connection
	UD QPType = ib.UD // unreliable datagram
	RD QPType = ib.RD // reliable datagram

	// The two ends of an extended reliable connection (XRC).
	XRCIni QPType = ib.XRCIni // initiator: sends to the shared receive queues of the target's domain
	XRCTgt QPType = ib.XRCTgt // target: receives into the shared receive queue that each request names
)

// The states of a queue pair. A program moves it from RESET through INIT and RTR to
// RTS; ModifyToRTS does all three. The device itself enters only SQE and ERR.
const (
	RESET QPState = ib.RESET // as created; the only state from which INIT is reached
	INIT  QPState = ib.INIT  // receives may be posted, but nothing is received or sent
	RTR   QPState = ib.RTR   // ready to receive: answers the peer, but sends no requests
	RTS   QPState = ib.RTS   // ready to send: works in both directions
	SQD   QPState = ib.SQD   // send queue drained: finishes what is begun, begins nothing new
	SQE   QPState = ib.SQE   // send queue error of UC and UD: sends are flushed, receives work
	ERR   QPState = ib.ERR   // every work request completes with WR_FLUSH_ERR
)

// Which send work requests complete with an entry in the CQ.
const (
	SigPerWR SigType = ib.SigPerWR // those with SendSignaled
	SigAll   SigType = ib.SigAll   // all of them
)

// The options of QPInitAttr.Flags.
const (
	// CreateBlockSelfMcastLB keeps the messages that a UD queue pair sends to a multicast
	// group from being received by itself.
	CreateBlockSelfMcastLB QPCreateFlags = ib.CreateBlockSelfMcastLB
)

// The states of path migration. Programs set only MIGRATED and REARM.
const (
	MIGRATED MigState = ib.MIGRATED // on the path in use; no alternate path is armed
	REARM    MigState = ib.REARM    // asks the peer to arm the alternate path
	ARMED    MigState = ib.ARMED    // both sides may migrate to the alternate path
)

// The attributes that a modify call sets: fields of QPAttr.
const (
	AttrState            AttrMask = ib.AttrState            // State
	AttrCurState         AttrMask = ib.AttrCurState         // CurState
	AttrEnSQDAsyncNotify AttrMask = ib.AttrEnSQDAsyncNotify // EnSQDAsyncNotify
	AttrAccessFlags      AttrMask = ib.AttrAccessFlags      // AccessFlags
	AttrPKeyIndex        AttrMask = ib.AttrPKeyIndex        // PKeyIndex
	AttrPort             AttrMask = ib.AttrPort             // Port
	AttrQKey             AttrMask = ib.AttrQKey             // QKey
	AttrAV               AttrMask = ib.AttrAV               // AV
	AttrPathMTU          AttrMask = ib.AttrPathMTU          // PathMTU
	AttrTimeout          AttrMask = ib.AttrTimeout          // Timeout
	AttrRetryCnt         AttrMask = ib.AttrRetryCnt         // RetryCnt
	AttrRNRRetry         AttrMask = ib.AttrRNRRetry         // RNRRetry
	AttrRQPSN            AttrMask = ib.AttrRQPSN            // RQPSN
	AttrMaxRDAtomic      AttrMask = ib.AttrMaxRDAtomic      // MaxRDAtomic
	AttrAltPath          AttrMask = ib.AttrAltPath          // AltAV, AltPKeyIndex, AltPort and AltTimeout
	AttrMinRNRTimer      AttrMask = ib.AttrMinRNRTimer      // MinRNRTimer
	AttrSQPSN            AttrMask = ib.AttrSQPSN            // SQPSN
	AttrMaxDestRDAtomic  AttrMask = ib.AttrMaxDestRDAtomic  // MaxDestRDAtomic
	AttrPathMigState     AttrMask = ib.AttrPathMigState     // PathMigState
	AttrCap              AttrMask = ib.AttrCap              // Cap
	AttrDestQPN          AttrMask = ib.AttrDestQPN          // DestQPN
	AttrRateLimit        AttrMask = ib.AttrRateLimit        // RateLimit
)

// The path MTUs, named by their size in bytes.
const (
	MTU256  MTU = ib.MTU256
	MTU512  MTU = ib.MTU512
	MTU1024 MTU = ib.MTU1024
	MTU2048 MTU = ib.MTU2048
	MTU4096 MTU = ib.MTU4096
)

// The asynchronous events.
const (
	EventCQErr            EventType = ib.EventCQErr            // the CQ overflowed
	EventQPFatal          EventType = ib.EventQPFatal          // the QP failed; it is in ERR
	EventQPReqErr         EventType = ib.EventQPReqErr         // the QP received an invalid request; it is in ERR
	EventQPAccessErr      EventType = ib.EventQPAccessErr      // a request to the QP violated access rights; it is in ERR
	EventCommEst          EventType = ib.EventCommEst          // the QP received its first packet in RTR
	EventSQDrained        EventType = ib.EventSQDrained        // the send queue is drained
	EventPathMig          EventType = ib.EventPathMig          // the QP moved to its alternate path
	EventPathMigErr       EventType = ib.EventPathMigErr       // the QP could not move to its alternate path
	EventDeviceFatal      EventType = ib.EventDeviceFatal      // the adapter failed
	EventPortActive       EventType = ib.EventPortActive       // the port is active
	EventPortErr          EventType = ib.EventPortErr          // the port is down
	EventLIDChange        EventType = ib.EventLIDChange        // InfiniBand only
	EventPKeyChange       EventType = ib.EventPKeyChange       // the P_Key table changed
	EventSMChange         EventType = ib.EventSMChange         // InfiniBand only
	EventSRQErr           EventType = ib.EventSRQErr           // the SRQ failed
	EventSRQLimitReached  EventType = ib.EventSRQLimitReached  // the SRQ has fewer receives than its limit
	EventQPLastWQEReached EventType = ib.EventQPLastWQEReached // a QP in ERR takes no more receives of its SRQ
	EventClientReregister EventType = ib.EventClientReregister // InfiniBand only
	EventGIDChange        EventType = ib.EventGIDChange        // the GID table changed
	EventWQFatal          EventType = ib.EventWQFatal          // a work queue failed
	EventEECFatal         EventType = ib.EventEECFatal         // the EE context failed; it is in ERR
	EventEECCommEst       EventType = ib.EventEECCommEst       // the EE context received its first packet in RTR
	EventEECSQDrained     EventType = ib.EventEECSQDrained     // the EE context is drained
	EventEECPathMig       EventType = ib.EventEECPathMig       // the EE context moved to its alternate path
	EventEECPathMigErr    EventType = ib.EventEECPathMigErr    // the EE context could not move to its alternate path
)

// The states of a port, as far as Ethernet has them.
const (
	PortDown   PortState = ib.PortDown   // no link
	PortActive PortState = ib.PortActive // carries data
)

// QPNMulticast is the destination QPN of a message to a multicast group.
const QPNMulticast QPN = ib.QPNMulticast

// PKeyDefault is the default partition, with full membership.
const PKeyDefault PKey = ib.PKeyDefault

// RateMax is no limit but the port's own rate.
const RateMax Rate = ib.RateMax
