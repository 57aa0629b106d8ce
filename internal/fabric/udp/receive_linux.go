//go:build !portable

package udp

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric"
)

// recvSize is the buffer size of one message: the most that GRO merges.
const recvSize = 1 << 16

// receiver is the receiving half of a port.
type receiver struct {
	v    *vector
	bufs []byte
	next int // the socket to read first

	calls uint // calls of Receive, for mailTurn
}

func newReceiver() *receiver {
	r := &receiver{v: newVector(), bufs: make([]byte, vectorLen*recvSize)}
	for i := range r.v.msgs {
		r.v.setBytes(i, r.buf(i))
		r.reset(i)
	}
	return r
}

func (r *receiver) buf(i int) []byte { return r.bufs[i*recvSize : (i+1)*recvSize] }

// reset prepares message i for another receive.
func (r *receiver) reset(i int) {
	h := &r.v.msgs[i].hdr
	h.Namelen = unix.SizeofSockaddrInet6
	h.SetControllen(int(unsafe.Sizeof(control{})))
	h.Flags = 0
}

// Receive implements fabric.Port. It returns at most 16 datagrams.
func (p *Port) Receive(ds []fabric.Datagram) (int, error) {
	if !p.poll.Enter() {
		return 0, fabric.ErrClosed
	}
	defer p.poll.Leave()
	if p.member.any.Load() {
		p.member.hearing.Lock()
		defer p.member.hearing.Unlock()
		return p.receive(p.member.heard, ds)
	}
	return p.receive(p.due(), ds)
}

// forwardedTurn is the number of Receive calls between two reads of Lease.Mail, which
// is also read after each Wait, since it may have ended the Wait. So polling does
// not need a second system call each time.
const forwardedTurn = 64

// due returns the sockets to read in this call.
func (p *Port) due() []*socket {
	if !p.mail {
		return p.socks
	}
	if p.cfg.Lease.shared() {
		waited := p.waited.Load()
		if waited {
			p.waited.Store(false)
		}
		if p.recv.calls++; waited || p.recv.calls%forwardedTurn == 0 {
			return p.socks
		}
	}
	return p.socks[:len(p.socks)-1]
}

// receive fills ds from socks, which take turns.
func (p *Port) receive(socks []*socket, ds []fabric.Datagram) (int, error) {
	r := p.recv
	var got tally
	used, n := 0, 0 // messages, datagrams
	for range socks {
		if r.next >= len(socks) {
			r.next = 0
		}
		s := socks[r.next]
		if s.forwarded && !p.cfg.Lease.shared() {
			r.next++
			continue
		}
		room := min(len(ds)-n, vectorLen-used, s.depth)
		if room == 0 {
			break
		}
		r.next++
		count, err := s.receive(&r.v.msgs[used], room)
		if err != nil {
			return n, err
		}
		for i := used; i < used+count; i++ {
			if p.datagram(i, s, &ds[n]) {
				got.add(ds[n].Segments(), len(ds[n].Bytes))
				n++
			}
			r.reset(i)
		}
		s.depth = nextDepth(s.depth, count)
		used += count
	}
	if n > 0 {
		p.Received(got.packets, got.bytes)
	}
	return n, nil
}

// nextDepth returns the number of messages to request from a socket after it
// returned count of depth. Requesting too many costs the kernel one more check
// of an empty queue, which slows down a ping-pong; requesting too few costs
// system calls.
func nextDepth(depth, count int) int {
	if count == depth {
		return min(2*depth, vectorLen)
	}
	return max(count, 1)
}

// receive fills up to n messages from first on. It ignores errors from earlier
// ICMP messages: UDP may lose packets.
func (s *socket) receive(first *message, n int) (int, error) {
	for {
		got, _, e := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(s.fd),
			uintptr(unsafe.Pointer(first)), uintptr(n), unix.MSG_DONTWAIT, 0, 0)
		switch e {
		case 0:
			return int(got), nil
		case unix.EAGAIN:
			return 0, nil
		case unix.EINTR, unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH:
		default:
			return 0, fmt.Errorf("udp: receive on %v: %w", s.addr, e)
		}
	}
}

// datagram converts message i to d, or reports false if it must be ignored.
func (p *Port) datagram(i int, s *socket, d *fabric.Datagram) bool {
	m := &p.recv.v.msgs[i]
	if m.hdr.Flags&unix.MSG_TRUNC != 0 {
		p.Truncated.Add(1)
		return false
	}
	if s.forwarded {
		return forwarded(d, p.recv.buf(i)[:m.len:m.len])
	}
	*d = fabric.Datagram{Bytes: p.recv.buf(i)[:m.len:m.len], Dst: s.addr, DstPort: fabric.RoCEPort}
	d.Src, d.SrcPort = p.recv.v.name(i)
	drops, told := p.recv.v.ctrls[i].parse(int(m.hdr.Controllen), d)
	if told && drops != s.drops {
		p.Overflows.Add(uint64(drops - s.drops))
		s.drops = drops
	}
	return true
}

// tally counts packets.
type tally struct{ packets, bytes int }

func (t *tally) add(packets, bytes int) {
	t.packets += packets
	t.bytes += bytes
}
