//go:build !portable

package udp

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/fdmark"
	"github.com/softhca/softhca/internal/fabric/iface"
)

// Backlog returns a function that reports how full the receive buffer is that gets the
// packets to a queue pair at an address of this host; nil if the address is not local, or
// the kernel does not report it. Backlog makes several system calls; the function makes two,
// which take about 2 µs, unless the socket has changed. Only the thread that holds the shard
// may call either.
//
// The socket may belong to another user: the kernel reports the state of all sockets of a
// network namespace to all its processes (sock_diag(7)).
func (p *Port) Backlog(dst netip.Addr, to ib.QPN) fabric.Backlog {
	if !p.poll.Enter() {
		return nil
	}
	defer p.poll.Leave()
	if !p.diag.open(p.socks[0]) {
		return nil
	}
	r := &peerSocket{diag: &p.diag, addr: dst, slot: uint8(to >> 16)}
	if dst.IsLinkLocalUnicast() && dst.Is6() {
		for _, s := range p.socks {
			r.scope = max(r.scope, s.scope)
		}
	}
	if _, e := r.find(); e == unix.ENOENT && !isLocal(dst, r.scope) || e == unix.ESRCH {
		return nil
	}
	return func() (used, size int) {
		if !p.poll.Enter() {
			return 0, 0
		}
		defer p.poll.Leave()
		return r.backlog()
	}
}

// isLocal reports whether an address belongs to this host, that is, whether bind accepts it.
func isLocal(a netip.Addr, scope uint32) bool {
	fd, err := unix.Socket(iface.Family(a), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }() // nothing was sent
	to := iface.Sockaddr(a, scope)
	switch sa := to.(type) {
	case *unix.SockaddrInet4:
		sa.Port = 0
	case *unix.SockaddrInet6:
		sa.Port = 0
	}
	return unix.Bind(fd, to) == nil
}

// peerSocket is the socket that gets the packets to the queue pairs of a slot at an address.
type peerSocket struct {
	diag   *diag
	addr   netip.Addr
	slot   uint8
	scope  uint32
	remote uint16 // source port with which a question finds this socket
	cookie uint64 // of the socket
}

// backlog reports how full the socket is; 0, 0 if there is no such socket.
func (r *peerSocket) backlog() (used, size int) {
	s, e := r.diag.ask(r, r.remote)
	if e == 0 && s.cookie != r.cookie || e == unix.ENOENT {
		s, e = r.find() // another process took over the address, or processes began to share it
	}
	if e != 0 {
		return 0, 0
	}
	return s.used, s.size
}

// The search in a group of sockets ends after groupProbes. If the first aloneProbes all find the
// same socket, it shares its address with no other.
const (
	groupProbes = 2048
	aloneProbes = 64
)

// find finds the socket. If sockets share an address, the kernel chooses one for a packet by its
// slot, but for a question by a hash of both addresses and ports. So find varies the source port
// until the kernel chooses the socket with the mark of the slot. ESRCH if no socket has the mark.
func (r *peerSocket) find() (s socketState, e unix.Errno) {
	var first uint64
	alone := true
	for remote := uint16(1); remote <= groupProbes; remote++ {
		if s, e = r.diag.ask(r, remote); e != 0 {
			return s, e
		}
		if remote == 1 {
			first = s.cookie
		}
		alone = alone && s.cookie == first
		if s.slot == r.slot || alone && remote == aloneProbes {
			r.remote, r.cookie = remote, s.cookie
			return s, 0
		}
	}
	return s, unix.ESRCH
}

// mark marks the socket of a slot for peerSocket.find. The mark is the lowest byte of half the size
// of the send buffer, which all processes can read.
func mark(fd int, slot uint8) {
	if n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF); err == nil {
		n = max(n/2-256, 0)&^255 | int(slot) // the system doubles the value that is set, and limits it
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, n)
	}
}

// socketState is the state of a socket that the kernel reports.
type socketState struct {
	cookie     uint64
	used, size int // of the receive buffer, as the kernel counts bytes
	slot       uint8
}

// diag asks the kernel for the state of UDP sockets.
type diag struct {
	fd    int // a netlink socket; 0 before open, -1 if the kernel does not answer
	req   diagRequest
	reply [64]uint64
}

// diagRequest is a struct nlmsghdr and a struct inet_diag_req_v2 of Linux.
type diagRequest struct {
	hdr      unix.NlMsghdr
	family   uint8
	protocol uint8
	ext      uint8 // the attributes wanted in the answer
	_        uint8
	states   uint32
	id       diagID
}

// diagID is a struct inet_diag_sockid. In a request, source and destination are those of an
// arriving packet.
type diagID struct {
	sport, dport [2]byte
	src, dst     [16]byte
	ifindex      uint32
	cookie       [2]uint32
}

// diagReply is a struct nlmsghdr and a struct inet_diag_msg. Attributes follow it.
type diagReply struct {
	hdr unix.NlMsghdr
	_   [4]uint8 // family, state, timer, retransmissions
	id  diagID   // the source is the socket's own address
	_   [5]uint32
}

// skMemInfo is INET_DIAG_SKMEMINFO of <linux/inet_diag.h>.
const skMemInfo = 7

// anyCookie is INET_DIAG_NOCOOKIE, twice.
var anyCookie = [2]uint32{^uint32(0), ^uint32(0)}

// open opens the netlink socket once, and reports whether the kernel answers questions about UDP
// sockets, as not all kernels do. To find out, it asks about own, a socket of the port.
func (d *diag) open(own *socket) bool {
	if d.fd != 0 {
		return d.fd > 0
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		d.fd = -1
		return false
	}
	d.fd = fdmark.Take(fd)
	if _, e := d.ask(&peerSocket{addr: own.addr, scope: own.scope}, 1); e != 0 {
		d.close()
		d.fd = -1
	}
	return d.fd > 0
}

// close closes the netlink socket.
func (d *diag) close() {
	if d.fd > 0 {
		_ = unix.Close(d.fd) // nothing to report
	}
}

// ask asks for the state of the socket for a packet to r from a source port; ENOENT if there is none.
func (d *diag) ask(r *peerSocket, remote uint16) (socketState, unix.Errno) {
	q := &d.req
	q.hdr = unix.NlMsghdr{Len: uint32(unsafe.Sizeof(*q)), Type: unix.SOCK_DIAG_BY_FAMILY, Flags: unix.NLM_F_REQUEST, Seq: q.hdr.Seq + 1}
	q.family, q.protocol = uint8(iface.Family(r.addr)), unix.IPPROTO_UDP
	q.ext, q.states = 1<<(skMemInfo-1), ^uint32(0)
	q.id = diagID{ifindex: r.scope, cookie: anyCookie}
	binary.BigEndian.PutUint16(q.id.sport[:], remote)
	binary.BigEndian.PutUint16(q.id.dport[:], fabric.RoCEPort)
	copy(q.id.src[:], r.addr.AsSlice())
	copy(q.id.dst[:], r.addr.AsSlice())
	if _, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(d.fd), uintptr(unsafe.Pointer(q)), unsafe.Sizeof(*q), unix.MSG_DONTWAIT, 0, 0); e != 0 {
		return socketState{}, e
	}
	for {
		n, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(d.fd), uintptr(unsafe.Pointer(&d.reply)), unsafe.Sizeof(d.reply), unix.MSG_DONTWAIT, 0, 0)
		switch {
		case e == unix.EINTR:
		case e != 0:
			return socketState{}, e
		case n >= unix.SizeofNlMsghdr && d.answer().hdr.Seq == q.hdr.Seq: // other numbers answer earlier questions that failed
			return d.parse(int(n))
		}
	}
}

// answer returns the head of the last answer.
func (d *diag) answer() *diagReply { return (*diagReply)(unsafe.Pointer(&d.reply)) }

// parse reads an answer of n bytes.
func (d *diag) parse(n int) (s socketState, e unix.Errno) {
	a := d.answer()
	b := unsafe.Slice((*byte)(unsafe.Pointer(a)), unsafe.Sizeof(d.reply))[:n]
	if a.hdr.Type == unix.NLMSG_ERROR && n >= unix.SizeofNlMsghdr+4 {
		return s, unix.Errno(-int32(binary.NativeEndian.Uint32(b[unix.SizeofNlMsghdr:])))
	}
	if a.hdr.Type != unix.SOCK_DIAG_BY_FAMILY || n < int(unsafe.Sizeof(*a)) {
		return s, unix.EPROTO
	}
	s.cookie = uint64(a.id.cookie[1])<<32 | uint64(a.id.cookie[0])
	for b = b[unsafe.Sizeof(*a):]; len(b) >= unix.SizeofRtAttr; {
		size := int(binary.NativeEndian.Uint16(b))
		if size < unix.SizeofRtAttr || size > len(b) {
			break
		}
		v := b[unix.SizeofRtAttr:size]
		if binary.NativeEndian.Uint16(b[2:]) == skMemInfo && len(v) >= 4*(unix.SK_MEMINFO_SNDBUF+1) {
			word := func(i int) int { return int(binary.NativeEndian.Uint32(v[4*i:])) }
			s.used, s.size = word(unix.SK_MEMINFO_RMEM_ALLOC), word(unix.SK_MEMINFO_RCVBUF)
			s.slot = uint8(word(unix.SK_MEMINFO_SNDBUF) / 2)
			return s, 0
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return s, unix.EPROTO
}
