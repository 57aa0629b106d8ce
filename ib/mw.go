package ib

import "strconv"

// MWType is the type of a memory window.
type MWType uint8

// The types, with the values of enum ibv_mw_type.
const (
	MWType1 MWType = 1 // belongs to a protection domain
	MWType2 MWType = 2 // belongs to the queue pair that it was bound on
)

// Valid reports whether t is a type of memory windows.
func (t MWType) Valid() bool { return t == MWType1 || t == MWType2 }

// String returns the type as rdma-core calls it.
func (t MWType) String() string {
	if t.Valid() {
		return "type " + strconv.Itoa(int(t))
	}
	return "MWType(" + strconv.Itoa(int(t)) + ")"
}

// mwTagMask keeps the bits of a window's key that each bind changes.
const mwTagMask RKey = 0xff

// Tagged returns the key k with the 8-bit tag of another.
func (k RKey) Tagged(tag RKey) RKey { return k&^mwTagMask | tag&mwTagMask }

// Inc returns the key with the next tag, as ibv_inc_rkey does: the key for the next bind
// of a memory window of type 2.
func (k RKey) Inc() RKey { return k.Tagged(k + 1) }

// MWBind says what a BIND_MW binds: Length bytes at Addr of the region LKey to the window
// RKey, which then has the tag of NewRKey and gives peers the rights Access. With length 0,
// it unbinds a window of type 1.
type MWBind struct {
	RKey, NewRKey RKey
	LKey          LKey
	Addr, Length  uint64
	Access        Access
}
