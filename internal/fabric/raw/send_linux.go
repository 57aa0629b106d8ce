package raw

import (
	"net/netip"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/ident"
	"github.com/softhca/softhca/internal/fabric/ipudp"
	"github.com/softhca/softhca/internal/fabric/poll"
)

// outlet is the raw socket of one family.
type outlet struct {
	fd    int
	index int // index in the poller; poll.NoSocket: none
}

// piece is a segment in a message.
type piece struct {
	run   *fabric.Run
	index int    // of the segment in the run
	id    uint16 // identification with which it is sent
}

// sender is the sending half of a port. It is allocated once and must not
// move: the messages point into it.
type sender struct {
	msgs   [vectorLen]message
	iovs   [vectorLen][2]unix.Iovec // headers, segment
	ctrls  [vectorLen][5]uint64     // for one struct in6_pktinfo
	names  [vectorLen]unix.RawSockaddrInet6
	heads  [vectorLen][ipudp.MaxLen]byte
	pieces [vectorLen]piece

	v4, v6 outlet
	scopes []uint32 // interface of each address
	id     uint16   // last identification used
}

func newSender() *sender {
	t := &sender{v4: outlet{index: poll.NoSocket}, v6: outlet{index: poll.NoSocket}}
	for i := range t.msgs {
		h := &t.msgs[i].hdr
		h.Name = (*byte)(unsafe.Pointer(&t.names[i]))
		h.Iov = &t.iovs[i][0]
		h.SetIovlen(2)
		t.iovs[i][0].Base = &t.heads[i][0]
		h.Control = (*byte)(unsafe.Pointer(&t.ctrls[i]))
	}
	return t
}

// Send implements fabric.Port.
func (p *Port) Send(b *fabric.Batch) error {
	if !p.poll.Enter() {
		return fabric.ErrClosed
	}
	defer p.poll.Leave()
	for runs := b.Pending(); len(runs) > 0; runs = b.Pending() {
		taken, err := p.sendSome(runs)
		b.Sent(taken)
		if err != nil {
			return err
		}
	}
	p.blocked.Store(poll.NoSocket)
	return nil
}

// sendSome sends the first segments of runs in one system call and returns the
// number of completely processed runs. It cuts a partly sent run to its rest.
func (p *Port) sendSome(runs []fabric.Run) (int, error) {
	if !p.valid(&runs[0]) {
		p.SendErrors.Add(uint64(runs[0].Count))
		return 1, nil
	}
	n := p.fill(runs)
	out := p.send.outlet(runs[0].Path.Src)
	got, _, e := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(out.fd),
		uintptr(unsafe.Pointer(&p.send.msgs[0])), uintptr(n), unix.MSG_DONTWAIT, 0, 0)
	sent := int(got)
	if e != 0 {
		sent = 0
	}
	for _, c := range p.send.pieces[sent:n] {
		ident.Move(c.run, c.index, c.id, uint16(c.index))
	}
	for _, c := range p.send.pieces[:sent] {
		p.Sent(1, len(c.run.Segment(c.index)))
	}
	switch e {
	case 0:
		return finish(runs, sent), nil
	case unix.EINTR:
		return 0, nil
	case unix.EAGAIN, unix.ENOBUFS, unix.ENOMEM:
		p.blocked.Store(int32(out.index))
		return 0, fabric.ErrBlocked
	default: // the kernel refuses the first segment
		p.SendErrors.Add(1)
		return finish(runs, 1), nil
	}
}

// finish removes n segments from runs and returns the number of completed runs.
func finish(runs []fabric.Run, n int) int {
	for i := range runs {
		if n < runs[i].Count {
			if n > 0 {
				ident.Cut(&runs[i], n)
			}
			return i
		}
		n -= runs[i].Count
	}
	return len(runs)
}

// valid reports whether a run can be sent: from an address of the port, to one
// of its family, with segments that fit an IP packet.
func (p *Port) valid(r *fabric.Run) bool {
	return slices.Contains(p.caps.Addrs, r.Path.Src) && r.Path.Dst.Is4() == r.Path.Src.Is4() &&
		r.Size <= ipudp.MaxPayload && len(r.Bytes) > 0
}

func (t *sender) outlet(a netip.Addr) outlet {
	if a.Is4() {
		return t.v4
	}
	return t.v6
}

// fill prepares messages for the first segments of runs, as long as they use
// the same socket, and returns their number. It updates their ICRCs to their
// identifications.
func (p *Port) fill(runs []fabric.Run) int {
	n := 0
	for i := range runs {
		r := &runs[i]
		if r.Path.Src.Is4() != runs[0].Path.Src.Is4() || !p.valid(r) {
			break
		}
		for k := 0; k < r.Count; k++ {
			if n == vectorLen {
				return n
			}
			p.message(n, r, k)
			n++
		}
	}
	return n
}

// message fills message i with segment k of r.
func (p *Port) message(i int, r *fabric.Run, k int) {
	t := p.send
	if t.id++; t.id == 0 {
		t.id = 1 // the kernel would replace 0
	}
	t.pieces[i] = piece{run: r, index: k, id: t.id}
	ident.Move(r, k, uint16(k), t.id)
	seg := r.Segment(k)
	h := ipudp.Header{
		Src: r.Path.Src, Dst: r.Path.Dst,
		SrcPort: r.Path.SrcPort, DstPort: fabric.RoCEPort,
		ID: t.id, TClass: r.Path.TClass,
		// 0 and 1 both mean "not beyond this subnet", but some hosts drop 0.
		HopLimit: max(r.Path.HopLimit, 1), FlowLabel: r.Path.FlowLabel,
	}
	t.iovs[i][0].SetLen(h.Put(t.heads[i][:], len(seg)))
	t.iovs[i][1].Base = &seg[0]
	t.iovs[i][1].SetLen(len(seg))
	t.msgs[i].hdr.Namelen = p.name(&t.names[i], &r.Path)
	n := 0
	if r.Path.Dst.IsMulticast() {
		n = t.leaveBy(i, r.Path.Dst, p.scope(r.Path.Src))
	}
	t.msgs[i].hdr.SetControllen(n)
}

// leaveBy writes the control message that makes message i leave by an
// interface, regardless of routes to a group, and returns its length.
func (t *sender) leaveBy(i int, group netip.Addr, ifindex uint32) int {
	h := (*unix.Cmsghdr)(unsafe.Pointer(&t.ctrls[i]))
	data := unsafe.Add(unsafe.Pointer(h), unix.CmsgLen(0))
	if group.Is4() {
		h.Level, h.Type = unix.IPPROTO_IP, unix.IP_PKTINFO
		h.SetLen(unix.CmsgLen(unix.SizeofInet4Pktinfo))
		*(*unix.Inet4Pktinfo)(data) = unix.Inet4Pktinfo{Ifindex: int32(ifindex)}
		return unix.CmsgSpace(unix.SizeofInet4Pktinfo)
	}
	h.Level, h.Type = unix.IPPROTO_IPV6, unix.IPV6_PKTINFO
	h.SetLen(unix.CmsgLen(unix.SizeofInet6Pktinfo))
	*(*unix.Inet6Pktinfo)(data) = unix.Inet6Pktinfo{Ifindex: ifindex}
	return unix.CmsgSpace(unix.SizeofInet6Pktinfo)
}

// scope returns the interface that has an address of the port.
func (p *Port) scope(a netip.Addr) uint32 { return p.send.scopes[slices.Index(p.caps.Addrs, a)] }

// name stores the destination address of a packet and returns its length. A raw
// socket's address has no port.
func (p *Port) name(to *unix.RawSockaddrInet6, path *fabric.Path) uint32 {
	if path.Dst.Is4() {
		sa := (*unix.RawSockaddrInet4)(unsafe.Pointer(to))
		sa.Family, sa.Port, sa.Addr = unix.AF_INET, 0, path.Dst.As4()
		return unix.SizeofSockaddrInet4
	}
	to.Family, to.Port, to.Addr, to.Flowinfo, to.Scope_id = unix.AF_INET6, 0, path.Dst.As16(), 0, 0
	if path.Dst.IsLinkLocalUnicast() || path.Dst.IsLinkLocalMulticast() {
		to.Scope_id = p.scope(path.Src)
	}
	return unix.SizeofSockaddrInet6
}
