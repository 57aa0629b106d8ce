//go:build !portable

package udp

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric"
)

// ipv6FlowInfo is IPV6_FLOWINFO of <linux/in6.h>: deliver class and flow label.
const ipv6FlowInfo = 11

// control is the room for the control messages of one datagram: three when
// sending, five when receiving, 24 bytes each. The element type aligns it.
type control [24]uint64

func (c *control) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(c)), unsafe.Sizeof(*c))
}

// put writes a control message at offset off and returns the offset after it.
// The value is size bytes long, 2 or 4, in the order of the machine.
func (c *control) put(off int, o option, size int) int {
	b := c.bytes()[off:]
	h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
	h.Level, h.Type = int32(o.level), int32(o.name)
	h.SetLen(unix.CmsgLen(size))
	data := b[unix.CmsgLen(0):]
	if size == 2 {
		binary.NativeEndian.PutUint16(data, uint16(o.value))
	} else {
		binary.NativeEndian.PutUint32(data, uint32(o.value))
	}
	return off + unix.CmsgSpace(size)
}

// putRun writes the control messages of r and returns their length: none for
// the common single segment with class 0 and the default hop limit.
func (c *control) putRun(r *fabric.Run) int {
	off := 0
	if r.Count > 1 {
		off = c.put(off, option{unix.IPPROTO_UDP, unix.UDP_SEGMENT, r.Size}, 2)
	}
	tos := option{unix.IPPROTO_IP, unix.IP_TOS, int(r.Path.TClass)}
	ttl := option{unix.IPPROTO_IP, unix.IP_TTL, hops(&r.Path)}
	if r.Path.Src.Is6() {
		tos = option{unix.IPPROTO_IPV6, unix.IPV6_TCLASS, int(r.Path.TClass)}
		ttl = option{unix.IPPROTO_IPV6, unix.IPV6_HOPLIMIT, hops(&r.Path)}
	}
	if tos.value != 0 {
		off = c.put(off, tos, 4)
	}
	if ttl.value != defaultHops {
		off = c.put(off, ttl, 4)
	}
	return off
}

// plain reports whether putRun would write nothing.
func plain(r *fabric.Run) bool {
	return r.Count == 1 && r.Path.TClass == 0 && r.Path.HopLimit == defaultHops
}

// hops returns the hop limit to send. 0 and 1 both mean "not beyond this
// subnet", and the kernel sends no 0.
func hops(p *fabric.Path) int { return max(int(p.HopLimit), 1) }

// parse reads the control messages that came with d from the first n bytes and
// returns the drop count of the socket, if the kernel reported it.
func (c *control) parse(n int, d *fabric.Datagram) (drops uint32, told bool) {
	b := c.bytes()[:n]
	for len(b) >= unix.SizeofCmsghdr {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
		end := int(h.Len)
		if end < unix.CmsgLen(0) || end > len(b) {
			break
		}
		data := b[unix.CmsgLen(0):end]
		if h.Level == unix.SOL_SOCKET && h.Type == unix.SO_RXQ_OVFL && len(data) >= 4 {
			drops, told = binary.NativeEndian.Uint32(data), true
		} else {
			apply(d, int(h.Level), int(h.Type), data)
		}
		b = b[min(unix.CmsgSpace(len(data)), len(b)):]
	}
	return drops, told
}

// apply stores one received control message in d.
func apply(d *fabric.Datagram, level, name int, data []byte) {
	if level == unix.IPPROTO_IP && name == unix.IP_TOS && len(data) >= 1 {
		d.TClass = data[0]
		return
	}
	if len(data) < 4 {
		return
	}
	v := binary.NativeEndian.Uint32(data)
	switch level {
	case unix.IPPROTO_UDP:
		if name == unix.UDP_GRO && int(v) < len(d.Bytes) {
			d.Stride = int(v)
		}
	case unix.IPPROTO_IP:
		if name == unix.IP_TTL {
			d.HopLimit = uint8(v)
		}
	case unix.IPPROTO_IPV6:
		switch name {
		case unix.IPV6_TCLASS:
			d.TClass = uint8(v)
		case unix.IPV6_HOPLIMIT:
			d.HopLimit = uint8(v)
		case ipv6FlowInfo:
			d.FlowLabel = binary.BigEndian.Uint32(data) & 0xFFFFF
		}
	}
}
