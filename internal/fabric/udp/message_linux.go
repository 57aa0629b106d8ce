//go:build !portable

package udp

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric"
)

// message is the kernel's struct mmsghdr.
type message struct {
	hdr unix.Msghdr
	len uint32
}

// vector holds the arguments of one sendmmsg or recvmmsg call: messages, each
// with its address, buffer and control messages. It is allocated once and must
// not move.
type vector struct {
	msgs  [vectorLen]message
	iovs  [vectorLen]unix.Iovec
	names [vectorLen]unix.RawSockaddrInet6 // also holds IPv4 addresses
	ctrls [vectorLen]control
}

// vectorLen is the maximum number of messages in one system call. It bounds the
// duration of calls that bypass the Go scheduler.
const vectorLen = 16

func newVector() *vector {
	v := new(vector)
	for i := range v.msgs {
		h := &v.msgs[i].hdr
		h.Name = (*byte)(unsafe.Pointer(&v.names[i]))
		h.Iov = &v.iovs[i]
		h.SetIovlen(1)
		h.Control = (*byte)(unsafe.Pointer(&v.ctrls[i]))
	}
	return v
}

// setBytes points message i at b, which must not be empty.
func (v *vector) setBytes(i int, b []byte) {
	v.iovs[i].Base = &b[0]
	v.iovs[i].SetLen(len(b))
}

// setName stores the address of message i and returns its length.
func setName(to *unix.RawSockaddrInet6, a netip.Addr, scope uint32) uint32 {
	if a.Is4() {
		sa := (*unix.RawSockaddrInet4)(unsafe.Pointer(to))
		sa.Family, sa.Addr = unix.AF_INET, a.As4()
		putPort(&sa.Port)
		return unix.SizeofSockaddrInet4
	}
	to.Family, to.Addr, to.Flowinfo, to.Scope_id = unix.AF_INET6, a.As16(), 0, 0
	if a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast() {
		to.Scope_id = scope
	}
	putPort(&to.Port)
	return unix.SizeofSockaddrInet6
}

func putPort(at *uint16) {
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(at))[:], fabric.RoCEPort)
}

// name returns the address of message i.
func (v *vector) name(i int) (netip.Addr, uint16) {
	sa := &v.names[i]
	if sa.Family == unix.AF_INET6 {
		return netip.AddrFrom16(sa.Addr), getPort(&sa.Port)
	}
	sa4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(sa))
	return netip.AddrFrom4(sa4.Addr), getPort(&sa4.Port)
}

func getPort(at *uint16) uint16 {
	return binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(at))[:])
}
