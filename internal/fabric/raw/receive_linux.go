package raw

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/ipudp"
)

// The virtual header before each packet (struct virtio_net_hdr).
const (
	vnetLen   = 10
	gsoNone   = 0
	gsoUDP    = 5 // VIRTIO_NET_HDR_GSO_UDP_L4: UDP_SEGMENT, not segmented yet
	flagsAt   = 0
	csumKnown = 1 | 2 // flags: not computed yet (sent on this host), or verified by the device
	gsoTypeAt = 1
	gsoSizeAt = 4
)

const (
	// recvSize fits the largest packet and its headers.
	recvSize = 1<<16 + 256
	// vectorLen is the number of messages in one system call.
	vectorLen = 16
)

// message is the kernel's struct mmsghdr.
type message struct {
	hdr unix.Msghdr
	len uint32
}

// receiver is the receiving half of a port. It is allocated once and must not
// move: the messages point into it.
type receiver struct {
	msgs  [vectorLen]message
	iovs  [vectorLen]unix.Iovec
	ctrls [vectorLen][8]uint64 // for one struct tpacket_auxdata
	bufs  []byte
	depth []int // number of messages to request from each socket
	next  int   // the socket to read first
}

func newReceiver(sockets int) *receiver {
	r := &receiver{bufs: make([]byte, vectorLen*recvSize), depth: make([]int, sockets)}
	for i := range r.depth {
		r.depth[i] = 1
	}
	for i := range r.msgs {
		h := &r.msgs[i].hdr
		r.iovs[i].Base = &r.buf(i)[0]
		r.iovs[i].SetLen(recvSize)
		h.Iov = &r.iovs[i]
		h.SetIovlen(1)
		h.Control = (*byte)(unsafe.Pointer(&r.ctrls[i]))
		r.reset(i)
	}
	return r
}

func (r *receiver) buf(i int) []byte { return r.bufs[i*recvSize : (i+1)*recvSize] }

// reset prepares message i for another receive.
func (r *receiver) reset(i int) {
	h := &r.msgs[i].hdr
	h.SetControllen(int(unsafe.Sizeof(r.ctrls[i])))
	h.Flags = 0
}

// Receive implements fabric.Port. It returns at most 16 datagrams.
func (p *Port) Receive(ds []fabric.Datagram) (int, error) {
	if !p.poll.Enter() {
		return 0, fabric.ErrClosed
	}
	defer p.poll.Leave()
	r := p.recv
	used, n := 0, 0 // messages, datagrams
	for range p.captures {
		k := r.next
		room := min(len(ds)-n, vectorLen-used, r.depth[k])
		if room == 0 {
			break
		}
		r.next = (k + 1) % len(p.captures)
		count, err := p.receive(p.captures[k].fd, used, room)
		if err != nil {
			return n, err
		}
		for i := used; i < used+count; i++ {
			if p.datagram(i, &ds[n]) {
				p.Received(ds[n].Segments(), len(ds[n].Bytes))
				n++
			}
			r.reset(i)
		}
		if count == r.depth[k] {
			r.depth[k] = min(2*count, vectorLen)
		} else {
			r.depth[k] = max(count, 1)
		}
		used += count
	}
	return n, nil
}

// receive receives up to n messages, starting at number first.
func (p *Port) receive(fd, first, n int) (int, error) {
	for {
		got, _, e := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd),
			uintptr(unsafe.Pointer(&p.recv.msgs[first])), uintptr(n), unix.MSG_DONTWAIT, 0, 0)
		switch e {
		case 0:
			return int(got), nil
		case unix.EAGAIN, unix.ENETDOWN: // the interface may come up again
			return 0, nil
		case unix.EINTR:
		case unix.EINVAL: // a packet that the virtual header cannot describe; the kernel dropped it
			p.Truncated.Add(1)
		default:
			return 0, fmt.Errorf("raw: receive: %w", e)
		}
	}
}

// datagram converts message i to d, or reports false if it must be ignored.
func (p *Port) datagram(i int, d *fabric.Datagram) bool {
	m := &p.recv.msgs[i]
	if m.hdr.Flags&unix.MSG_TRUNC != 0 || m.len < vnetLen {
		p.Truncated.Add(1)
		return false
	}
	b := p.recv.buf(i)[:m.len]
	off, ok := auxiliary(p.recv.ctrls[i][:], int(m.hdr.Controllen))
	if !ok || vnetLen+off > len(b) {
		return false
	}
	ip := b[vnetLen+off:]
	h, payload, ok := ipudp.Parse(ip)
	if !ok || len(payload) == 0 {
		return false
	}
	if b[flagsAt]&csumKnown == 0 && b[gsoTypeAt] == gsoNone && !h.ChecksumOK(ip[:h.Len()+len(payload)]) {
		p.BadChecksums.Add(1)
		return false
	}
	*d = fabric.Datagram{
		Bytes: payload[:len(payload):len(payload)],
		Src:   h.Src, Dst: h.Dst, SrcPort: h.SrcPort, DstPort: h.DstPort,
		ID: h.ID, IDKnown: true, NoDF: h.NoDF,
		TClass: h.TClass, HopLimit: h.HopLimit, FlowLabel: h.FlowLabel,
	}
	switch b[gsoTypeAt] {
	case gsoNone:
		return true
	case gsoUDP:
		if size := int(binary.NativeEndian.Uint16(b[gsoSizeAt:])); size < len(payload) {
			d.Stride = size
		}
		return true
	default:
		return false
	}
}

// auxiliary returns the offset of the IP header after the virtual header. It
// returns false for packets of a VLAN, which belong to another interface.
func auxiliary(ctrl []uint64, n int) (off int, ok bool) {
	b := unsafe.Slice((*byte)(unsafe.Pointer(&ctrl[0])), 8*len(ctrl))
	if n < unix.CmsgLen(int(unsafe.Sizeof(unix.TpacketAuxdata{}))) || n > len(b) {
		return 0, false
	}
	h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
	if h.Level != unix.SOL_PACKET || h.Type != unix.PACKET_AUXDATA {
		return 0, false
	}
	aux := (*unix.TpacketAuxdata)(unsafe.Pointer(&b[unix.CmsgLen(0)]))
	vlan := aux.Status&unix.TP_STATUS_VLAN_VALID != 0 && aux.Vlan_tci&0xFFF != 0
	return int(aux.Net), !vlan
}
