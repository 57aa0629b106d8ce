package ib

import "fmt"

// GUID is a 64-bit identifier of an adapter. It says nothing about addresses.
type GUID uint64

// String returns the GUID as four groups of four digits, as rdma-core does.
func (g GUID) String() string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x", uint64(g)>>48, uint64(g)>>32&0xffff, uint64(g)>>16&0xffff, uint64(g)&0xffff)
}

// MarshalText is String, because JSON's numbers need not hold 64 bits. It
// never fails.
func (g GUID) MarshalText() ([]byte, error) { return []byte(g.String()), nil }
