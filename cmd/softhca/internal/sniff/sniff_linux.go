package sniff

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric/iface"
	"github.com/softhca/softhca/roce"
)

const (
	vnetLen    = 10 // of struct virtio_net_hdr, which is in front of each packet
	gsoTypeAt  = 1
	gsoSizeAt  = 4
	gsoUDP     = 5           // VIRTIO_NET_HDR_GSO_UDP_L4: several datagrams, not cut yet
	largest    = 1<<16 + 256 // a packet, and what precedes it
	whole      = 1 << 18     // more than any packet has: it is not cut
	recvBuffer = 32 << 20
)

// Sniffer captures the packets of an interface. It is not safe for concurrent use.
type Sniffer struct {
	file *os.File
	conn interface {
		Read(func(fd uintptr) bool) error
	}
	loopback bool // each sent packet is also captured as a received one
	buf      []byte
	control  []byte
	odd      int // packets that the kernel could not describe
}

// Open starts to capture on an interface. For an unknown name, or without the
// privilege, the error says what to do.
func Open(name string) (*Sniffer, error) {
	nif, err := net.InterfaceByName(name)
	if err != nil {
		if op := (*net.OpError)(nil); errors.As(err, &op) {
			err = op.Err // the whole error wrongly mentions routes
		}
		return nil, fmt.Errorf("interface %s: %w (ip link lists those of this host)", name, err)
	}
	// Without a protocol the socket gets no packet until it has the filter and is bound.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return nil, fmt.Errorf("following interface %s needs CAP_NET_RAW: run explain as root, give softhca the capability "+
			"(sudo setcap cap_net_raw+ep softhca), or use tcpdump (sudo tcpdump -i %s -U -w - udp port 4791 | softhca explain -): %w", name, name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("packet socket: %w", err)
	}
	if err := prepare(fd, nif); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	s := &Sniffer{
		file: os.NewFile(uintptr(fd), name), loopback: nif.Flags&net.FlagLoopback != 0,
		buf: make([]byte, largest), control: make([]byte, unix.CmsgSpace(int(unsafe.Sizeof(unix.Timespec{})))+unix.CmsgSpace(int(unsafe.Sizeof(unix.TpacketAuxdata{})))),
	}
	if s.conn, err = s.file.SyscallConn(); err != nil {
		_ = s.file.Close()
		return nil, fmt.Errorf("packet socket: %w", err)
	}
	return s, nil
}

// prepare sets a socket up and binds it.
func prepare(fd int, nif *net.Interface) error {
	code := filter
	program := &unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, program); err != nil {
		return fmt.Errorf("attach filter: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1); err != nil {
		return fmt.Errorf("PACKET_VNET_HDR: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1); err != nil {
		return fmt.Errorf("PACKET_AUXDATA: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1); err != nil {
		return fmt.Errorf("SO_TIMESTAMPNS: %w", err)
	}
	iface.RecvBuffer(fd, recvBuffer)
	var all [2]byte
	binary.BigEndian.PutUint16(all[:], unix.ETH_P_ALL)
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: binary.NativeEndian.Uint16(all[:]), Ifindex: nif.Index}); err != nil {
		return fmt.Errorf("bind to %s: %w", nif.Name, err)
	}
	return nil
}

// Constants of the kernel's classic BPF: the offset of the IP header, independent of the
// headers before it (SKF_NET_OFF), and some operations.
const (
	atIP  = 0xfff00000
	byteA = unix.BPF_LD | unix.BPF_ABS | unix.BPF_B
	halfA = unix.BPF_LD | unix.BPF_ABS | unix.BPF_H
	equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	bits  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	right = unix.BPF_ALU | unix.BPF_RSH | unix.BPF_K
	ever  = unix.BPF_JMP | unix.BPF_JA
	done  = unix.BPF_RET | unix.BPF_K
)

// filter accepts whole UDP packets to RoCE's port, without IPv4 options. Jumps count from
// the next instruction: Jt if the condition is true, Jf if not.
var filter = [...]unix.SockFilter{
	{Code: byteA, K: atIP},
	{Code: equal, K: 0x45, Jt: 2},
	{Code: right, K: 4},
	{Code: equal, K: 6, Jt: 6, Jf: 10},
	{Code: byteA, K: atIP + 9}, // of IPv4
	{Code: equal, K: unix.IPPROTO_UDP, Jf: 8},
	{Code: halfA, K: atIP + 6},
	{Code: bits, K: 0x3fff, Jt: 6}, // a fragment
	{Code: halfA, K: atIP + 22},
	{Code: ever, K: 3},
	{Code: byteA, K: atIP + 6}, // of IPv6
	{Code: equal, K: unix.IPPROTO_UDP, Jf: 2},
	{Code: halfA, K: atIP + 42},
	{Code: equal, K: roce.Port, Jt: 1},
	{Code: done, K: 0},
	{Code: done, K: whole},
}

// Listen calls emit with each packet, from the IP header on, that passes until ctx
// ends. The bytes are valid during the call.
func (s *Sniffer) Listen(ctx context.Context, emit func(ip []byte, at time.Time) error) error {
	defer context.AfterFunc(ctx, func() { _ = s.file.SetReadDeadline(time.Unix(1, 0)) })()
	var end time.Time // packets before it are still read from the socket's queue
	for {
		packet, at, err := s.receive(!end.IsZero())
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && end.IsZero():
			if end, err = time.Now(), s.file.SetReadDeadline(time.Time{}); err != nil {
				return fmt.Errorf("read from interface %s: %w", s.file.Name(), err)
			}
			continue
		case errors.Is(err, unix.EAGAIN), !end.IsZero() && at.After(end):
			return nil
		case errors.Is(err, unix.EINVAL): // an old kernel cannot describe an unsegmented packet
			s.odd++
			continue
		case errors.Is(err, unix.ENETDOWN): // the interface may come up again
			continue
		case err != nil:
			return fmt.Errorf("read from interface %s: %w", s.file.Name(), err)
		case packet == nil:
			continue
		}
		size := 0
		if s.buf[gsoTypeAt] == gsoUDP {
			size = int(binary.NativeEndian.Uint16(s.buf[gsoSizeAt:]))
		}
		cut(packet, size, func(ip []byte) {
			if err == nil {
				err = emit(ip, at)
			}
		})
		if err != nil {
			return err
		}
	}
}

// receive waits for a packet, or with there only takes a queued one, and returns it from
// the IP header on. It returns nil for a packet to skip.
func (s *Sniffer) receive(there bool) (packet []byte, at time.Time, err error) {
	var n, got int
	var from unix.Sockaddr
	wait := s.conn.Read(func(fd uintptr) bool {
		n, got, _, from, err = unix.Recvmsg(int(fd), s.buf, s.control, 0)
		return there || !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR)
	})
	if err = errors.Join(wait, err); err != nil {
		return nil, at, err
	}
	if ll, ok := from.(*unix.SockaddrLinklayer); ok && s.loopback && ll.Pkttype == unix.PACKET_OUTGOING {
		return nil, at, nil
	}
	at, offset := auxiliary(s.control[:got])
	if offset = vnetLen + offset; offset > n {
		return nil, at, nil
	}
	return s.buf[offset:n], at, nil
}

// auxiliary returns the kernel's timestamp of a packet, and the length of the headers
// before its IP header.
func auxiliary(control []byte) (at time.Time, offset int) {
	at = time.Now()
	all, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return at, 0
	}
	for _, m := range all {
		switch {
		case m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPNS && len(m.Data) >= int(unsafe.Sizeof(unix.Timespec{})):
			at = time.Unix((*unix.Timespec)(unsafe.Pointer(&m.Data[0])).Unix())
		case m.Header.Level == unix.SOL_PACKET && m.Header.Type == unix.PACKET_AUXDATA && len(m.Data) >= int(unsafe.Sizeof(unix.TpacketAuxdata{})):
			offset = int((*unix.TpacketAuxdata)(unsafe.Pointer(&m.Data[0])).Net)
		}
	}
	return at, offset
}

// Close stops the capture. It returns the number of packets that the kernel dropped
// because they were not read in time.
func (s *Sniffer) Close() (missed int, err error) {
	stats, err := unix.GetsockoptTpacketStats(int(s.file.Fd()), unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err == nil {
		missed = int(stats.Drops)
	}
	return missed + s.odd, errors.Join(err, s.file.Close())
}
