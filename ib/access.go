package ib

import (
	"fmt"
	"strings"
)

// Access is a set of access rights of a memory region, a window or, for the
// remote ones, a queue pair.
type Access uint32

// The rights, with the values of enum ibv_access_flags. Local read is always
// granted.
const (
	AccessLocalWrite      Access = 1 << 0  // receives, READs and atomics may write to the region
	AccessRemoteWrite     Access = 1 << 1  // peers may write with RDMA WRITE
	AccessRemoteRead      Access = 1 << 2  // peers may read with RDMA READ
	AccessRemoteAtomic    Access = 1 << 3  // peers may use COMPARE&SWAP and FETCH&ADD
	AccessMWBind          Access = 1 << 4  // memory windows may be bound to the region
	AccessZeroBased       Access = 1 << 5  // addresses count from the start of the region
	AccessOnDemand        Access = 1 << 6  // the memory is not pinned
	AccessHugeTLB         Access = 1 << 7  // the memory is in huge pages
	AccessFlushGlobal     Access = 1 << 8  // peers may flush to global visibility
	AccessFlushPersistent Access = 1 << 9  // peers may flush to persistence
	AccessRelaxedOrdering Access = 1 << 20 // the bus may reorder writes
)

// AccessRemote is every right to the data of a region that a remote peer can use.
const AccessRemote = AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic

// AccessFlush is every right to FLUSH.
const AccessFlush = AccessFlushGlobal | AccessFlushPersistent

var accessNames = [...]struct {
	bit  Access
	name string
}{
	{AccessLocalWrite, "LOCAL_WRITE"},
	{AccessRemoteWrite, "REMOTE_WRITE"},
	{AccessRemoteRead, "REMOTE_READ"},
	{AccessRemoteAtomic, "REMOTE_ATOMIC"},
	{AccessMWBind, "MW_BIND"},
	{AccessZeroBased, "ZERO_BASED"},
	{AccessOnDemand, "ON_DEMAND"},
	{AccessHugeTLB, "HUGETLB"},
	{AccessFlushGlobal, "FLUSH_GLOBAL"},
	{AccessFlushPersistent, "FLUSH_PERSISTENT"},
	{AccessRelaxedOrdering, "RELAXED_ORDERING"},
}

// String returns the names of the rights joined by a bar, "0" for none;
// bits without a name are shown as a number.
func (a Access) String() string {
	if a == 0 {
		return "0"
	}
	var names []string
	for _, n := range accessNames {
		if a&n.bit != 0 {
			names = append(names, n.name)
			a &^= n.bit
		}
	}
	if a != 0 {
		names = append(names, fmt.Sprintf("%#x", uint32(a)))
	}
	return strings.Join(names, "|")
}

// ReregFlags says what a re-registration changes.
type ReregFlags uint8

// The flags, with the values of enum ibv_rereg_mr_flags.
const (
	ReregTranslation ReregFlags = 1 << 0 // the memory and its address
	ReregPD          ReregFlags = 1 << 1 // the protection domain
	ReregAccess      ReregFlags = 1 << 2 // the rights
)

// Advice is an advice on memory of regions.
type Advice uint32

// The advices, with the values of enum ibv_advise_mr_advice.
const (
	AdvicePrefetch        Advice = 0 // make the pages present, for reading
	AdvicePrefetchWrite   Advice = 1 // make the pages present, for writing
	AdvicePrefetchNoFault Advice = 2 // use the pages that are present, and add none
)

// AdviseFlush makes an advice return only when it was followed; the value of
// IBV_ADVISE_MR_FLAG_FLUSH.
const AdviseFlush = 1
