//go:build linux

package ucm

import (
	"encoding/binary"
	"fmt"

	"github.com/softhca/softhca/ib"
)

// The structures of <rdma/rdma_user_cm.h>, field by field, with their padding. Numbers have the
// host's byte order, except those of types be16 and be64.

type (
	be16 [2]byte
	be64 [8]byte

	sockaddrIn6     [28]byte
	sockaddrStorage [128]byte
)

const maxPrivateData = 256

type header struct {
	Cmd     uint32
	In, Out uint16
}

type createID struct {
	UID, Response uint64
	PS            uint16
	QPType        uint8
	_             [5]byte
}

type numberResp struct{ N uint32 } // number of an ID, or count of the events that the program took

type destroyID struct {
	Response uint64
	ID       uint32
	_        uint32
}

type bindIP struct {
	Response uint64
	Addr     sockaddrIn6
	ID       uint32
}

type bind struct {
	ID       uint32
	AddrSize uint16
	Reserved uint16
	Addr     sockaddrStorage
}

type resolveIP struct {
	Src, Dst      sockaddrIn6
	ID, TimeoutMS uint32
}

type resolveAddr struct {
	ID, TimeoutMS    uint32
	SrcSize, DstSize uint16
	Reserved         uint32
	Src, Dst         sockaddrStorage
}

type resolveRoute struct{ ID, TimeoutMS uint32 }

type query struct {
	Response   uint64
	ID, Option uint32
}

// The options of a query.
const (
	queryAddr = iota
	queryPath
	queryGID
)

type userPath struct {
	DGID, SGID                                        ib.GID
	DLID, SLID                                        be16
	RawTraffic                                        uint32
	FlowLabel                                         [4]byte // big endian
	Reversible, MTU                                   uint32
	PKey                                              be16
	HopLimit, TrafficClass                            uint8
	NumbPath, SL, MTUSelector, RateSelector, Rate     uint8
	PacketLifeTimeSelector, PacketLifeTime, Preferred uint8
}

type queryRouteResp struct {
	NodeGUID   be64
	Route      [2]userPath
	Src, Dst   sockaddrIn6
	NumPaths   uint32
	Port       uint8
	_          [3]byte
	IBDevIndex uint32
	_          uint32
}

type queryAddrResp struct {
	NodeGUID         be64
	Port             uint8
	_                uint8
	PKey             be16
	SrcSize, DstSize uint16
	Src, Dst         sockaddrStorage
	IBDevIndex       uint32
	_                uint32
}

// indexedBefore is how much of queryRouteResp and queryAddrResp old kernels return, which
// report no device index: programs may have no room for more.
const indexedBefore = 8

type queryPathResp struct {
	NumPaths uint32
	_        uint32
	Flags    uint32
	_        uint32
	Path     pathRecord
}

type connParam struct {
	QPNum, QKey                      uint32
	PrivateData                      [maxPrivateData]byte
	PrivateDataLen                   uint8
	SRQ                              uint8
	ResponderResources               uint8
	InitiatorDepth                   uint8
	FlowControl                      uint8
	RetryCount, RNRRetryCount, Valid uint8
}

type ahAttr struct {
	DGID                                           ib.GID
	FlowLabel                                      uint32
	SGIDIndex, HopLimit, TrafficClass, _           uint8
	DLID                                           uint16
	SL, SrcPathBits, StaticRate, IsGlobal, Port, _ uint8
}

type udParam struct {
	QPNum, QKey    uint32
	AH             ahAttr
	PrivateData    [maxPrivateData]byte
	PrivateDataLen uint8
	_              [7]byte
}

// The offer of extended connection establishment is the last field of a structure. This package
// never makes one, like older kernels.
type ece struct{ VendorID, AttrMod uint32 }

const eceSize = 8

type connect struct {
	Param connParam
	ID    uint32
	_     uint32
	ECE   ece
}

type accept struct {
	UID   uint64
	Param connParam
	ID    uint32
	_     uint32
	ECE   ece
}

type listen struct{ ID, Backlog uint32 }

type reject struct {
	ID             uint32
	PrivateDataLen uint8
	Reason         uint8
	_              [2]byte
	PrivateData    [maxPrivateData]byte
}

type disconnect struct{ ID uint32 }

type initQPAttr struct {
	Response    uint64
	ID, QPState uint32
}

type qpAttr struct {
	Mask, State, CurState, PathMTU, PathMigState, QKey, RQPSN, SQPSN, DestQPNum, AccessFlags uint32
	AH, AltAH                                                                                ahAttr
	MaxSendWR, MaxRecvWR, MaxSendSGE, MaxRecvSGE, MaxInlineData                              uint32
	PKeyIndex, AltPKeyIndex                                                                  uint16
	SQDAsyncNotify, SQDraining, MaxRDAtomic, MaxDestRDAtomic, MinRNRTimer, Port              uint8
	Timeout, RetryCnt, RNRRetry, AltPort, AltTimeout                                         uint8
	_                                                                                        [5]byte
}

type notify struct{ ID, Event uint32 }

type joinIPMcast struct {
	Response, UID uint64
	Addr          sockaddrIn6
	ID            uint32
}

type joinMcast struct {
	Response, UID       uint64
	ID                  uint32
	AddrSize, JoinFlags uint16
	Addr                sockaddrStorage
}

// The flags of a join. On RoCE a send-only member is like any other.
const (
	joinFull = iota
	joinSendOnly
)

type getEvent struct{ Response uint64 }

type eventResp struct {
	UID               uint64
	ID, Event, Status uint32
	Param             [304]byte // connParam or udParam
	_                 uint32
	ECE               ece
}

// shortEvent is an event as reported by kernels without ece.
const shortEvent = 324

type setOption struct {
	Optval                     uint64
	ID, Level, Optname, Optlen uint32
}

// The options.
const (
	levelID = 0
	levelIB = 1

	optionTOS        = 0
	optionReuseAddr  = 1
	optionAFOnly     = 2
	optionACKTimeout = 3

	optionPath = 1 // of levelIB
)

type migrateID struct {
	Response uint64
	ID, FD   uint32
}

// decode reads a structure. Input that is too short for it gives EINVAL; only a missing ece is
// accepted, since old programs do not have it.
func decode[T any](in []byte) (c T, err error) {
	switch want := binary.Size(c); {
	case len(in) >= want:
	case len(in) >= want-eceSize && hasECE(c):
		in = append(append(make([]byte, 0, want), in...), make([]byte, want-len(in))...)
	default:
		return c, fmt.Errorf("a command has %d bytes; it needs %d: %w", len(in), want, ib.EINVAL)
	}
	_, err = binary.Decode(in, binary.NativeEndian, &c)
	return c, err
}

func hasECE(c any) bool {
	switch c.(type) {
	case connect, accept:
		return true
	}
	return false
}

// encode writes a structure, truncated to room bytes. It returns ENOSPC if room is less than
// least.
func encode(c any, room, least int) ([]byte, error) {
	if room < least {
		return nil, fmt.Errorf("room for %d bytes; the answer needs %d: %w", room, least, ib.ENOSPC)
	}
	b, err := binary.Append(nil, binary.NativeEndian, c)
	return b[:min(len(b), room)], err
}
