package verbs

import (
	"crypto/rand"
	"encoding/binary"
	"net/netip"

	"github.com/softhca/softhca/ib"
)

// The structures of the verbs, from package ib.
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

	// Flush is what a FLUSH waits for at the peer: that earlier WRITEs and ATOMIC WRITEs of
	// the queue pair to this memory are visible, or safe on storage. The queue pair and the
	// region of the peer must have the right of each type, FLUSH_GLOBAL or FLUSH_PERSISTENT;
	// without it the request completes with REM_INV_REQ_ERR or REM_ACCESS_ERR.
	//
	// A FLUSH for persistence is answered when the storage has the data. Until then the
	// requester repeats it each time that QPAttr.Timeout expires, and gives up with
	// RETRY_EXC_ERR after QPAttr.RetryCnt times: choose them for the storage.
	//
	//	type Flush struct {
	//		Length uint32 // bytes from RemoteAddr on, at most 2^31; 0 flushes nothing, and is answered
	//		Type   FlushType
	//		Level  FlushLevel
	//	}
	Flush = ib.Flush

	// WC is a work completion. With a status other than SUCCESS only WRID, Status,
	// QPN and VendorErr are valid; Err returns them with an explanation. The page
	// docs/statuses.md says how each status comes about and what to check.
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
	// errors.Is(err, WCRetryExcErr) works, and its text says what the status means and
	// what to check.
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

	// QPAttr holds the attributes of a queue pair, or of an EE context. A modify call
	// uses only the fields that its mask names.
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
	//		RNRRetry         uint8 // 0..7; 7: unlimited
	//		AltPort          uint8
	//		AltTimeout       uint8
	//		RateLimit        uint32 // kbit/s
	//	}
	QPAttr = ib.QPAttr

	// QPCap holds the sizes of a queue pair. CreateQP takes the minimum sizes and
	// returns the actual ones.
	//
	//	type QPCap struct {
	//		MaxSendWR     uint32 // entries of the send queue
	//		MaxRecvWR     uint32 // entries of the receive queue
	//		MaxSendSGE    uint32 // gather elements of a send work request
	//		MaxRecvSGE    uint32 // scatter elements of a receive work request
	//		MaxInlineData uint32 // bytes of inline data of a send work request
	//	}
	QPCap = ib.QPCap

	// QPCreateFlags are options with which a queue pair is created.
	QPCreateFlags = ib.QPCreateFlags

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
	// FlushType is what a FLUSH waits for: one or both of the types.
	FlushType = ib.FlushType
	// FlushLevel selects the memory of a FLUSH.
	FlushLevel = ib.FlushLevel
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
	// QPN is the number of a queue pair, of 24 bits.
	//
	//	func (q QPN) String() string
	QPN = ib.QPN
	// SRQN is the number of a shared receive queue of XRC.
	//
	//	func (n SRQN) String() string
	SRQN = ib.SRQN
	// EECN is the number of an EE context.
	//
	//	func (n EECN) String() string
	EECN = ib.EECN
	// LKey names a memory region to the own adapter; see MR.SGE.
	LKey = ib.LKey
	// RKey names a memory region or window to the peer; see MR.RKey and MW.RKey. Tagged returns it
	// with the low 8 bits, the tag, of another; Inc with the next tag, as ibv_inc_rkey does.
	//
	//	func (k RKey) Tagged(tag RKey) RKey
	//	func (k RKey) Inc() RKey
	RKey = ib.RKey
	// MWType is the type of a memory window.
	//
	//	func (t MWType) Valid() bool
	//	func (t MWType) String() string
	MWType = ib.MWType
	// QKey protects UD and RD queue pairs: a message is accepted if its Q_Key is the QP's.
	QKey = ib.QKey
	// PKey is a partition key.
	//
	//	func (p PKey) Matches(o PKey) bool
	PKey = ib.PKey
	// MTU is the code of a path MTU.
	//
	//	func (m MTU) Bytes() int
	//	func (m MTU) Valid() bool
	MTU = ib.MTU
	// MigState is the state of path migration.
	//
	//	func (m MigState) String() string
	MigState = ib.MigState
	// PortState is the state of a port.
	//
	//	func (p PortState) String() string
	PortState = ib.PortState
	// Rate is the code of a static rate.
	//
	//	func (r Rate) Mbps() uint32
	//	func (r Rate) String() string
	//	func (r Rate) Valid() bool
	Rate = ib.Rate
	// EventType is the kind of an asynchronous event.
	//
	//	func (e EventType) OfEEC() EventType
	//	func (e EventType) String() string
	EventType = ib.EventType
)

// The identifiers.
type (
	// PSN is a 24-bit packet sequence number. It wraps, so it has methods where a
	// number has operators; NewPSN and RandomPSN return one.
	//
	//	func (p PSN) Add(n uint32) PSN
	//	func (p PSN) Diff(o PSN) int32
	//	func (p PSN) Distance(o PSN) uint32
	//	func (p PSN) InWindow(start PSN, n uint32) bool
	//	func (p PSN) Next() PSN
	//	func (p PSN) Prev() PSN
	//	func (p PSN) String() string
	//	func (p PSN) Value() uint32
	PSN = ib.PSN
	// GID is the address of a port: an IP address in 16 bytes. GIDFromAddr returns one.
	//
	//	func (g GID) Addr() netip.Addr
	//	func (g GID) IsMulticast() bool
	//	func (g GID) IsZero() bool
	//	func (g GID) String() string
	GID = ib.GID
	// GUID identifies an adapter, whatever its addresses are.
	//
	//	func (g GUID) MarshalText() ([]byte, error)
	//	func (g GUID) String() string
	GUID = ib.GUID
)

// NewPSN returns the PSN with the low 24 bits of v.
func NewPSN(v uint32) PSN { return ib.NewPSN(v) }

// RandomPSN returns an unpredictable PSN, for the first packet of a connection.
func RandomPSN() PSN {
	var b [4]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return ib.NewPSN(binary.NativeEndian.Uint32(b[:]))
}

// GIDFromAddr returns the GID of an IP address.
func GIDFromAddr(a netip.Addr) GID { return ib.GIDFromAddr(a) }

// MTUFor returns the largest path MTU whose payload is at most n bytes, and false
// if n is below 256.
func MTUFor(n int) (MTU, bool) { return ib.MTUFor(n) }
