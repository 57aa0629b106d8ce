package raw

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric"
)

// Special offsets of the kernel's classic BPF (<linux/filter.h>): the base of
// offsets relative to the network header, and the packet type. They are
// -0x100000 and -0x1000 + 4 as unsigned numbers.
const (
	netOff  = 0xFFF00000
	pktType = 0xFFFFF004
)

// whole accepts a complete packet; the number exceeds the size of any packet.
const whole = 1 << 18

// program assembles a filter. Every test is followed by its own return, so that
// jumps span at most the test of one address.
type program []unix.SockFilter

func (p *program) op(code uint16, jt, jf uint8, k uint32) {
	*p = append(*p, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
}

func (p *program) load(size uint16, off uint32) { p.op(unix.BPF_LD|unix.BPF_ABS|size, 0, 0, off) }

func (p *program) ret(k uint32) { p.op(unix.BPF_RET|unix.BPF_K, 0, 0, k) }

// must drops the packet unless the accumulator is v.
func (p *program) must(v uint32) {
	p.op(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 1, 0, v)
	p.ret(0)
}

// mustNot drops the packet if the accumulator is v.
func (p *program) mustNot(v uint32) {
	p.op(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 1, v)
	p.ret(0)
}

// hearing lists the packets that a packet socket receives.
type hearing struct {
	addrs    []netip.Addr
	groups   []netip.Addr
	outgoing bool // also packets of this host to the groups
}

// filter accepts whole UDP packets for port 4791 of one of the addresses and
// groups, but not packets that this host sends (loopback would deliver them
// twice), unless outgoing is set, nor packets to other stations.
func (h *hearing) filter() []unix.SockFilter {
	var p, received, sent program
	received.packets(slices.Concat(h.addrs, h.groups))
	if h.outgoing {
		sent.packets(h.groups)
	} else {
		sent.ret(0)
	}
	p.load(unix.BPF_W, pktType)
	p.mustNot(unix.PACKET_OTHERHOST)
	p.op(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 1, unix.PACKET_OUTGOING)
	p.op(unix.BPF_JMP|unix.BPF_JA, 0, 0, uint32(len(received)))
	return slices.Concat(p, received, sent)
}

// packets appends the tests of a packet to one of addrs. The appended code
// always returns.
func (p *program) packets(addrs []netip.Addr) {
	var v4, v6 program
	v4.ipv4(addrs)
	v6.ipv6(addrs)
	p.load(unix.BPF_B, netOff)
	p.op(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 1, 0, 0x45) // IPv4 without options
	p.op(unix.BPF_JMP|unix.BPF_JA, 0, 0, uint32(len(v4)))
	*p = append(*p, v4...)
	p.op(unix.BPF_ALU|unix.BPF_RSH|unix.BPF_K, 0, 0, 4)
	p.must(6)
	*p = append(*p, v6...)
}

// ipv4 appends the tests of an IPv4 packet. The appended code always returns.
func (p *program) ipv4(addrs []netip.Addr) {
	p.load(unix.BPF_B, netOff+9)
	p.must(unix.IPPROTO_UDP)
	p.load(unix.BPF_H, netOff+6)
	p.op(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0, 0, 0x3FFF) // fragment offset and MF
	p.must(0)
	p.load(unix.BPF_H, netOff+22)
	p.must(fabric.RoCEPort)
	p.load(unix.BPF_W, netOff+16)
	for _, a := range addrs {
		if a.Is4() {
			b := a.As4()
			p.op(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 1, binary.BigEndian.Uint32(b[:]))
			p.ret(whole)
		}
	}
	p.ret(0)
}

// ipv6 appends the tests of an IPv6 packet. The appended code always returns.
func (p *program) ipv6(addrs []netip.Addr) {
	p.load(unix.BPF_B, netOff+6)
	p.must(unix.IPPROTO_UDP)
	p.load(unix.BPF_H, netOff+42)
	p.must(fabric.RoCEPort)
	for _, a := range addrs {
		if !a.Is6() {
			continue
		}
		b := a.As16()
		for i := range uint32(4) {
			rest := uint8(2*(3-i) + 1) // instructions to the next address
			p.load(unix.BPF_W, netOff+24+4*i)
			p.op(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, rest, binary.BigEndian.Uint32(b[4*i:]))
		}
		p.ret(whole)
	}
	p.ret(0)
}

// rejectAll accepts nothing.
func rejectAll() []unix.SockFilter {
	var p program
	p.ret(0)
	return p
}

// attach sets the filter of a socket.
func attach(fd int, f []unix.SockFilter) error {
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]})
}
