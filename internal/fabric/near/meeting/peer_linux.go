//go:build !portable

package meeting

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric/fdmark"
	"github.com/softhca/softhca/internal/fabric/near/ring"
)

// NewPeer returns a peer. It owns both memories and the socket of wake-ups.
func NewPeer(who Identity, own *ring.Memory, view *ring.View, fd int) *Peer {
	return &Peer{Identity: who, Out: ring.NewProducer(own, view), In: ring.NewConsumer(own, view), own: own, view: view, fd: fd, end: processOf(fd)}
}

// Wake wakes the peer. It never blocks: if the socket is full, wake-ups wait there. It returns
// ErrGone if the peer has ended.
func (p *Peer) Wake() error {
	for {
		err := unix.Sendto(p.fd, []byte{1}, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
		switch {
		case err == nil || errors.Is(err, unix.EAGAIN):
			return nil
		case !errors.Is(err, unix.EINTR):
			return fmt.Errorf("%w: %w", ErrGone, err)
		}
	}
}

// mostWakes is the maximum number of wake-ups that a call of Woken takes. The rings suppress
// superfluous wake-ups, so only a peer that floods sends more.
const mostWakes = 16

// Woken takes the wake-ups that have arrived. It returns ErrGone if the peer has ended. Whatever a
// wake-up contains is discarded, descriptors included. Woken does not block.
func (p *Peer) Woken() error {
	var b [1]byte
	for range mostWakes {
		n, _, err := unix.Recvfrom(p.fd, b[:], unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("%w: %w", ErrGone, err)
		case n == 0: // the end, or an empty datagram, which no correct peer sends
			return ErrGone
		}
	}
	return nil
}

// processOf returns a descriptor of the process at the other end of a socket; -1 if there is none:
// before Linux 6.5, if the process belongs to another PID namespace.
func processOf(fd int) int {
	end, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if errors.Is(err, unix.ENOPROTOOPT) {
		var who *unix.Ucred
		if who, err = unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			end, err = unix.PidfdOpen(int(who.Pid), 0)
		}
	}
	if err != nil {
		return -1
	}
	unix.CloseOnExec(end)
	return fdmark.Take(end)
}

// Close leaves the meeting, once: the peer gets ErrGone. Nothing may use the rings afterwards.
func (p *Peer) Close() error {
	if p.closed {
		return nil
	}
	p.closed = true
	err := errors.Join(unix.Close(p.fd), p.own.Close(), p.view.Close())
	if p.end >= 0 {
		err = errors.Join(err, unix.Close(p.end))
	}
	return err
}
