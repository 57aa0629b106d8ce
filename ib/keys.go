package ib

import "fmt"

// QPN is a 24-bit queue pair number.
type QPN uint32

const (
	// QPNGSI is the number of the general services interface QP.
	QPNGSI QPN = 1
	// QPNMulticast is the destination QPN of multicast packets.
	QPNMulticast QPN = 0xffffff
	// QPNMask keeps the 24 bits of a QPN.
	QPNMask QPN = 0xffffff
)

// String returns the QPN as rdma-core prints it: 0x and six digits.
func (q QPN) String() string { return fmt.Sprintf("0x%06x", uint32(q)) }

// EECN is the 24-bit number of an end-to-end (EE) context, one end of a
// reliable datagram channel. These numbers are separate from QPNs.
type EECN uint32

// EECNMask keeps the 24 bits of an EE context's number.
const EECNMask EECN = 0xffffff

// String returns the number as a QPN is printed: 0x and six digits.
func (n EECN) String() string { return fmt.Sprintf("0x%06x", uint32(n)) }

// SRQN is the 24-bit number of an XRC shared receive queue, which a peer puts
// into its requests. These numbers are separate from QPNs.
type SRQN uint32

// SRQNMask keeps the 24 bits of a shared receive queue's number.
const SRQNMask SRQN = 0xffffff

// String returns the number as a QPN is printed: 0x and six digits.
func (n SRQN) String() string { return fmt.Sprintf("0x%06x", uint32(n)) }

// LKey names a memory region for local access: the key of a gather or
// scatter element.
type LKey uint32

// RKey names a memory region or window for access by a remote peer.
type RKey uint32

// QKey protects the datagram services: a UD packet is accepted when its
// Q_Key equals the QP's.
type QKey uint32

const (
	// QKeyGSI is the well-known Q_Key of QP1.
	QKeyGSI QKey = 0x80010000
	// QKeyControlled is the bit that marks a privileged Q_Key: a send work
	// request that has it set takes the QP's own Q_Key (IBA 10.2.5).
	QKeyControlled QKey = 1 << 31
)

// PKey is a partition key: 15 bits of key and, in bit 15, full membership.
type PKey uint16

const (
	// PKeyDefault is the default partition with full membership.
	PKeyDefault PKey = 0xffff
	pkeyBase    PKey = 0x7fff
	pkeyFull    PKey = 0x8000
)

// Matches reports whether two ports with these keys may talk: the same
// non-zero key value, and at least one of them a full member (IBA 10.9.3).
func (p PKey) Matches(o PKey) bool {
	return p&pkeyBase == o&pkeyBase && p&pkeyBase != 0 && (p|o)&pkeyFull != 0
}

// MSN is the 24-bit count of messages that a responder has completed.
type MSN uint32

// Next returns the MSN after m.
func (m MSN) Next() MSN { return (m + 1) & psnMask }
