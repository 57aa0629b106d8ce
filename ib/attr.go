package ib

import "strings"

// AttrMask names QP attributes: what a modify call gives, and what the
// modify table requires and allows.
type AttrMask uint32

// The attribute bits, with the values of enum ibv_qp_attr_mask.
const (
	AttrState            AttrMask = 1 << 0  // State
	AttrCurState         AttrMask = 1 << 1  // CurState
	AttrEnSQDAsyncNotify AttrMask = 1 << 2  // EnSQDAsyncNotify
	AttrAccessFlags      AttrMask = 1 << 3  // AccessFlags
	AttrPKeyIndex        AttrMask = 1 << 4  // PKeyIndex
	AttrPort             AttrMask = 1 << 5  // Port
	AttrQKey             AttrMask = 1 << 6  // QKey
	AttrAV               AttrMask = 1 << 7  // AV
	AttrPathMTU          AttrMask = 1 << 8  // PathMTU
	AttrTimeout          AttrMask = 1 << 9  // Timeout
	AttrRetryCnt         AttrMask = 1 << 10 // RetryCnt
	AttrRNRRetry         AttrMask = 1 << 11 // RNRRetry
	AttrRQPSN            AttrMask = 1 << 12 // RQPSN
	AttrMaxRDAtomic      AttrMask = 1 << 13 // MaxRDAtomic
	AttrAltPath          AttrMask = 1 << 14 // AltAV, AltPKeyIndex, AltPort and AltTimeout
	AttrMinRNRTimer      AttrMask = 1 << 15 // MinRNRTimer
	AttrSQPSN            AttrMask = 1 << 16 // SQPSN
	AttrMaxDestRDAtomic  AttrMask = 1 << 17 // MaxDestRDAtomic
	AttrPathMigState     AttrMask = 1 << 18 // PathMigState
	AttrCap              AttrMask = 1 << 19 // Cap
	AttrDestQPN          AttrMask = 1 << 20 // DestQPN
	AttrRateLimit        AttrMask = 1 << 25 // RateLimit
)

// attrNames holds the names of the attribute bits in bit order.
var attrNames = [...]struct {
	bit  AttrMask
	name string
}{
	{AttrState, "STATE"},
	{AttrCurState, "CUR_STATE"},
	{AttrEnSQDAsyncNotify, "EN_SQD_ASYNC_NOTIFY"},
	{AttrAccessFlags, "ACCESS_FLAGS"},
	{AttrPKeyIndex, "PKEY_INDEX"},
	{AttrPort, "PORT"},
	{AttrQKey, "QKEY"},
	{AttrAV, "AV"},
	{AttrPathMTU, "PATH_MTU"},
	{AttrTimeout, "TIMEOUT"},
	{AttrRetryCnt, "RETRY_CNT"},
	{AttrRNRRetry, "RNR_RETRY"},
	{AttrRQPSN, "RQ_PSN"},
	{AttrMaxRDAtomic, "MAX_QP_RD_ATOMIC"},
	{AttrAltPath, "ALT_PATH"},
	{AttrMinRNRTimer, "MIN_RNR_TIMER"},
	{AttrSQPSN, "SQ_PSN"},
	{AttrMaxDestRDAtomic, "MAX_DEST_RD_ATOMIC"},
	{AttrPathMigState, "PATH_MIG_STATE"},
	{AttrCap, "CAP"},
	{AttrDestQPN, "DEST_QPN"},
	{AttrRateLimit, "RATE_LIMIT"},
}

// AttrAll is every attribute bit that has a name.
const AttrAll AttrMask = 1<<21 - 1 | AttrRateLimit

// Names returns the names of the bits of m in bit order.
func (m AttrMask) Names() []string {
	var names []string
	for _, a := range attrNames {
		if m&a.bit != 0 {
			names = append(names, a.name)
		}
	}
	return names
}

// String returns the names joined by a bar, "0" for none.
func (m AttrMask) String() string {
	if m == 0 {
		return "0"
	}
	return strings.Join(m.Names(), "|")
}

// QPCap holds the sizes of a queue pair. In Create they are the least that
// is asked for; the actual sizes, never less, are returned.
type QPCap struct {
	MaxSendWR     uint32 // entries of the send queue
	MaxRecvWR     uint32 // entries of the receive queue
	MaxSendSGE    uint32 // gather elements of a send work request
	MaxRecvSGE    uint32 // scatter elements of a receive work request
	MaxInlineData uint32 // bytes of inline data of a send work request
}

// QPCreateFlags are options with which a queue pair is created.
type QPCreateFlags uint32

// CreateBlockSelfMcastLB keeps the messages that a UD queue pair sends to a multicast group
// from being received by itself. Other queue pairs of the group receive them, also those of
// the same adapter.
const CreateBlockSelfMcastLB QPCreateFlags = 1 << 1

// AHAttr is an address vector: the way to a remote port.
type AHAttr struct {
	DGID         GID    // destination
	FlowLabel    uint32 // 20 bits; chooses the UDP source port
	SGIDIndex    uint8  // entry of the port's GID table to send from
	HopLimit     uint8  // IPv4 TTL or IPv6 hop limit; at least 1
	TrafficClass uint8  // IPv4 TOS or IPv6 traffic class
	SL           uint8  // service level; kept, without effect on Ethernet
	StaticRate   Rate   // most that packets may fill of the link
	Port         uint8  // physical port, from 1
}

// QPAttr holds the attributes of a queue pair, as struct ibv_qp_attr does.
// In a modify call only the fields named by the mask are read.
type QPAttr struct {
	State            QPState
	CurState         QPState
	PathMTU          MTU
	PathMigState     MigState
	QKey             QKey
	RQPSN            PSN    // next expected; Query gives the current one
	SQPSN            PSN    // next to send; Query gives the current one
	DestQPN          QPN    // of an EE context: the number of the one at the other end
	AccessFlags      Access // REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC
	Cap              QPCap
	AV               AHAttr
	AltAV            AHAttr
	PKeyIndex        uint16
	AltPKeyIndex     uint16
	EnSQDAsyncNotify bool
	SQDraining       bool  // Query only
	MaxRDAtomic      uint8 // READs and atomics outstanding as requester
	MaxDestRDAtomic  uint8 // READs and atomics kept as responder
	MinRNRTimer      uint8 // RNR timer code, 0..31
	Port             uint8 // from 1
	Timeout          uint8 // local ACK timeout code, 0..31; 0 is never
	RetryCnt         uint8 // 0..7
	RNRRetry         uint8 // 0..7; 7: unlimited
	AltPort          uint8
	AltTimeout       uint8
	RateLimit        uint32 // kbit/s
}
