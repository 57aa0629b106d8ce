package ib

import "fmt"

// psnMask keeps the 24 bits of a packet sequence number.
const psnMask = 1<<24 - 1

// PSNWindow is half of the 24-bit sequence space: at most this many PSNs may
// be outstanding on a queue pair, and a request is a duplicate when it lies
// up to this far behind the expected PSN (IBA 9.7.2).
const PSNWindow = 1 << 23

// PSN is a 24-bit packet sequence number that wraps. It is a struct so that
// the operators that do not wrap (<, +, -) do not compile.
type PSN struct{ v uint32 }

// NewPSN returns the PSN with the low 24 bits of v.
func NewPSN(v uint32) PSN { return PSN{v & psnMask} }

// Value returns the 24-bit number.
func (p PSN) Value() uint32 { return p.v }

// Add returns the PSN n places after p.
func (p PSN) Add(n uint32) PSN { return PSN{(p.v + n) & psnMask} }

// Next returns the PSN after p.
func (p PSN) Next() PSN { return p.Add(1) }

// Prev returns the PSN before p.
func (p PSN) Prev() PSN { return PSN{(p.v - 1) & psnMask} }

// Diff returns the signed distance from o to p, in [-2^23, 2^23-1]:
// positive when p is ahead of o.
func (p PSN) Diff(o PSN) int32 { return int32((p.v-o.v)<<8) >> 8 }

// Distance returns how many places p lies after o, in [0, 2^24).
func (p PSN) Distance(o PSN) uint32 { return (p.v - o.v) & psnMask }

// InWindow reports whether p is one of the n PSNs that begin with start.
func (p PSN) InWindow(start PSN, n uint32) bool { return p.Distance(start) < n }

// String returns the PSN as 0x and six hexadecimal digits.
func (p PSN) String() string { return fmt.Sprintf("0x%06x", p.v) }
