//go:build !portable

package udp

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/ipudp"
	"github.com/softhca/softhca/internal/fabric/poll"
)

// sender is the sending half of a port.
type sender struct {
	v       *vector
	gso     bool // the kernel accepts runs; permanently false once it refused one
	retried bool // the first pending run was refused once by a stale ICMP error
	sent    tally
}

func newSender(gso bool) *sender {
	return &sender{v: newVector(), gso: gso}
}

// Send implements fabric.Port.
func (p *Port) Send(b *fabric.Batch) error {
	if !p.poll.Enter() {
		return fabric.ErrClosed
	}
	defer p.poll.Leave()
	var err error
	for err == nil {
		runs := b.Pending()
		if len(runs) == 0 {
			p.blocked.Store(poll.NoSocket)
			break
		}
		var taken int
		taken, err = p.sendSome(runs)
		b.Sent(taken)
	}
	p.Sent(p.send.sent.packets, p.send.sent.bytes)
	p.send.sent = tally{}
	return err
}

// sendSome sends the first runs in one system call, or the first run segment by
// segment, and returns the number of completely processed runs.
func (p *Port) sendSome(runs []fabric.Run) (int, error) {
	s := p.socketOf(runs[0].Path.Src)
	if s == nil || len(runs[0].Bytes) == 0 || runs[0].Path.Dst.Is4() != s.addr.Is4() {
		return 1, p.refuse(runs[0].Count)
	}
	if runs[0].Count > 1 && !p.send.whole(&runs[0]) {
		return p.sendSegments(s, &runs[0])
	}
	n, e := p.send.call(s, p.send.group(runs))
	if e == 0 {
		p.send.count(runs[:n])
		return n, nil
	}
	return p.failed(s, &runs[0], e)
}

// whole reports whether a run of several segments can be sent with offload.
func (t *sender) whole(r *fabric.Run) bool {
	return t.gso && r.Count <= gsoSegments && len(r.Bytes) <= ipudp.MaxPayload
}

// group returns the first runs that can be sent through one socket in one call.
func (t *sender) group(runs []fabric.Run) []fabric.Run {
	n := 1
	for n < min(len(runs), vectorLen) {
		r := &runs[n]
		if r.Path.Src != runs[0].Path.Src || r.Path.Dst.Is4() != r.Path.Src.Is4() ||
			len(r.Bytes) == 0 || (r.Count > 1 && !t.whole(r)) {
			break
		}
		n++
	}
	return runs[:n]
}

// call sends runs and returns the number accepted. The kernel reports an error
// for a run only if it is the first.
func (t *sender) call(s *socket, runs []fabric.Run) (int, unix.Errno) {
	if len(runs) == 1 && plain(&runs[0]) {
		return t.one(s, &runs[0].Path, runs[0].Bytes)
	}
	for i := range runs {
		t.fill(i, s, &runs[i])
		t.v.msgs[i].hdr.SetControllen(t.v.ctrls[i].putRun(&runs[i]))
	}
	return t.many(s, len(runs))
}

// fill sets address and bytes of message i.
func (t *sender) fill(i int, s *socket, r *fabric.Run) {
	t.v.msgs[i].hdr.Namelen = setName(&t.v.names[i], r.Path.Dst, s.scope)
	t.v.setBytes(i, r.Bytes)
}

// many sends the first n messages.
func (t *sender) many(s *socket, n int) (int, unix.Errno) {
	got, _, e := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(s.fd),
		uintptr(unsafe.Pointer(&t.v.msgs[0])), uintptr(n), unix.MSG_DONTWAIT, 0, 0)
	return int(got), e
}

// one sends a single segment that needs no control message. It is for
// acknowledgements and small messages, for which the kernel's copies of message
// headers matter.
func (t *sender) one(s *socket, p *fabric.Path, b []byte) (int, unix.Errno) {
	size := setName(&t.v.names[0], p.Dst, s.scope)
	_, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(s.fd), uintptr(unsafe.Pointer(&b[0])),
		uintptr(len(b)), unix.MSG_DONTWAIT, uintptr(unsafe.Pointer(&t.v.names[0])), uintptr(size))
	return 1, e
}

// count records runs as sent.
func (t *sender) count(runs []fabric.Run) {
	t.retried = false
	for i := range runs {
		t.sent.add(runs[i].Count, len(runs[i].Bytes))
	}
}

// failed handles an error for run r.
func (p *Port) failed(s *socket, r *fabric.Run, e unix.Errno) (int, error) {
	switch verdict(e) {
	case again:
		return 0, nil
	case blocked:
		p.blocked.Store(s.index)
		return 0, fabric.ErrBlocked
	case stale:
		if !p.send.retried {
			p.send.retried = true
			return 0, nil
		}
	case unsupported:
		if r.Count > 1 {
			return p.sendRefused(s, r)
		}
	}
	p.send.retried = false
	return 1, p.refuse(r.Count)
}

// refuse counts packets that will never be sent.
func (p *Port) refuse(packets int) error {
	p.SendErrors.Add(uint64(packets))
	return nil
}

// reaction is the reaction to a failed system call.
type reaction uint8

const (
	dropped     reaction = iota // the run cannot be sent
	again                       // retry at once
	blocked                     // no room
	stale                       // the error may belong to an earlier packet
	unsupported                 // perhaps only the offload was refused
)

func verdict(e unix.Errno) reaction {
	switch e {
	case unix.EINTR:
		return again
	case unix.EAGAIN, unix.ENOBUFS, unix.ENOMEM:
		return blocked
	case unix.ECONNREFUSED:
		return stale
	case unix.EINVAL, unix.EIO, unix.EOPNOTSUPP, unix.EMSGSIZE, unix.ENOPROTOOPT:
		return unsupported
	default:
		return dropped
	}
}
