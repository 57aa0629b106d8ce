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
	AccessLocalWrite      Access = 1 << 0
	AccessRemoteWrite     Access = 1 << 1
	AccessRemoteRead      Access = 1 << 2
	AccessRemoteAtomic    Access = 1 << 3
	AccessMWBind          Access = 1 << 4
	AccessZeroBased       Access = 1 << 5
	AccessOnDemand        Access = 1 << 6
	AccessHugeTLB         Access = 1 << 7
	AccessFlushGlobal     Access = 1 << 8
	AccessFlushPersistent Access = 1 << 9
	AccessRelaxedOrdering Access = 1 << 20
)

// AccessRemote is every right that a remote peer can use.
const AccessRemote = AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic

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
