package restrack

import (
	"math/bits"
	"net/netip"
	"time"
)

// QP is the row of a queue pair or an EE context. In all rows, the number of another object (PD,
// SendCQ and so on) is the Num of that object's row; 0 is none.
type QP = Row[QPInfo, QPCounts]

// CQ is the row of a completion queue.
type CQ = Row[CQInfo, CQCounts]

// MR is the row of a region or a window.
type MR = Row[MRInfo, NoCounts]

// PD is the row of a protection domain.
type PD = Row[PDInfo, PDCounts]

// SRQ is the row of a shared receive queue.
type SRQ = Row[SRQInfo, NoCounts]

// CMID is the row of a connection or a listener of the connection manager.
type CMID = Row[CMIDInfo, NoCounts]

// XRCD is the row of an XRC domain.
type XRCD = Row[XRCDInfo, NoCounts]

// NoCounts are the counters of an object that has none.
type NoCounts struct{}

// QPInfo identifies a queue pair or an EE context.
type QPInfo struct {
	Num     uint32 // QPN; of an EE context, its EECN
	Peer    uint32 // QPN of the peer, of an EE context its EECN; 0 unless connected
	PD      uint32
	SendCQ  uint32
	RecvCQ  uint32
	SRQ     uint32
	XRCD    uint32
	_       uint32
	Type    uint8    // ib.QPType
	MTU     uint8    // path MTU, ib.MTU
	PKey    uint16   // its value
	SrcPort uint16   // UDP source port
	State   uint8    // ib.QPState
	Mig     uint8    // ib.MigState
	MaxSend uint32   // size of the send queue, in work requests
	MaxRecv uint32   // size of its own receive queue
	Local   [16]byte // address of the path; zero: none
	Remote  [16]byte
}

// LatencyBuckets is the number of buckets of QPCounts.Latency.
const LatencyBuckets = 24

// QPCounts are the counters of a queue pair. The messages of reliable datagrams are counted in the
// row of their EE context.
type QPCounts struct {
	SendPSN     uint64 // of the next packet to send
	AckPSN      uint64 // the oldest that is not acknowledged
	RecvPSN     uint64 // expected next
	Window      uint64 // bytes that may be in flight
	InFlight    uint64 // bytes that are
	Outstanding uint64 // work requests in the send queue
	RTT         uint64 // smoothed round trip in nanoseconds; 0: not measured

	SentPackets, SentBytes, SentMessages uint64 // bytes of payload; messages are requests that were begun, not local ones
	RcvdPackets, RcvdBytes, RcvdMessages uint64 // bytes of payload; messages are requests that were executed

	Retransmitted uint64 // request packets sent again
	Timeouts      uint64 // expiries of the retry timer
	RNRSent       uint64 // RNR NAKs sent
	RNRRcvd       uint64 // RNR NAKs received
	SeqErrors     uint64 // sequence NAKs received

	Errors    uint64 // completions with an error other than WR_FLUSH_ERR
	LastError uint64 // ib.WCStatus of the last of them
	ErrorAt   uint64 // the engine's instant of it, in nanoseconds

	// Latency counts the send work requests that completed, by the time from the first packet to
	// the completion: see Bucket.
	Latency [LatencyBuckets]uint64
}

// bucketUnit is the logarithm to base 2 of the bound of the first bucket, in nanoseconds.
const bucketUnit = 8

// Bucket returns the index in QPCounts.Latency for a time: bucket 0 counts times below 256 ns, each
// other one times up to twice the bound of the one before, and the last all longer ones.
func Bucket(d time.Duration) int {
	return min(bits.Len64(uint64(max(d, 0))>>bucketUnit), LatencyBuckets-1)
}

// BucketBound returns the time below which all times of a bucket are; the last bucket has no bound,
// for which BucketBound returns a negative value.
func BucketBound(i int) time.Duration {
	if i >= LatencyBuckets-1 {
		return -1
	}
	return 1 << (bucketUnit + i)
}

// CQInfo identifies a completion queue.
type CQInfo struct {
	Num   uint32
	Depth uint32 // entries
	_     [6]uint64
}

// CQCounts are the counters of a completion queue. The engine's thread writes those before Consumed,
// and the program's threads, which poll, the others, which are in another cache line.
type CQCounts struct {
	Produced  uint64 // completions added
	HighWater uint64 // maximum number of completions that waited
	Overflows uint64 // completions lost because the queue was full
	Events    uint64 // completion events raised
	_         [4]uint64

	Consumed uint64 // completions taken; the lower 32 bits count
	Armed    uint64 // 0, or ring.ArmSolicited or ring.ArmAny
	_        [6]uint64
}

// Waiting returns the number of completions that wait to be polled.
func (c *CQCounts) Waiting() uint32 { return uint32(c.Produced) - uint32(c.Consumed) }

// Forms of MRInfo.Form.
const (
	FormRegion uint8 = iota
	FormWindow
	FormDeviceMemory
	FormImplicit // all of the address space
	FormNull
)

// MRInfo identifies a region or a window. It contains no keys: whoever knows them can access the
// memory.
type MRInfo struct {
	Num    uint32
	PD     uint32
	Access uint32 // ib.Access
	Form   uint8
	_      [3]uint8
	Length uint64 // bytes
	Addr   uint64 // only if the user wants it; otherwise 0
}

// PDInfo identifies a protection domain.
type PDInfo struct {
	Num uint32
	_   uint32
}

// PDCounts are the counters of a protection domain.
type PDCounts struct {
	Users uint64 // objects in it
}

// SRQInfo identifies a shared receive queue.
type SRQInfo struct {
	Num    uint32
	PD     uint32
	MaxWR  uint32
	MaxSGE uint32
	CQ     uint32 // XRC only
	XRCD   uint32 // XRC only
	Number uint32 // XRC: the number in packets
	XRC    uint32 // 1 for XRC
}

// CMIDInfo identifies a connection, a lookup or a listener of the connection manager.
type CMIDInfo struct {
	Num        uint32 // communication ID; of a listener, a number of its own
	QPN        uint32 // 0: none
	State      uint8  // cm.State; of a listener StateListen
	Listener   uint8  // 1 for a listener
	Type       uint8  // ib.QPType
	_          uint8
	RemoteQPN  uint32
	ServiceID  uint64
	Local      [16]byte
	Remote     [16]byte
	LocalPort  uint16 // RDMA_CM port; 0: another kind of service
	RemotePort uint16
	RemoteID   uint32 // communication ID of the peer
}

// XRCDInfo identifies an XRC domain.
type XRCDInfo struct {
	Num uint32
	_   uint32
}

// Addr returns an address as rows contain it: zero for the zero Addr.
func Addr(a netip.Addr) (b [16]byte) {
	if a.IsValid() {
		b = a.As16()
	}
	return b
}
