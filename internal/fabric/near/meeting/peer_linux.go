//go:build !portable

package meeting

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

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

// mostWakes bounds the wake-ups that a call of Woken takes. The rings suppress others, so more
// come only from a peer that floods.
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
		case n == 0: // the end; an empty datagram, too, comes from no correct peer
			return ErrGone
		}
	}
	return nil
}

// Close leaves the meeting: the peer gets ErrGone. Nothing may use the rings afterwards.
func (p *Peer) Close() error {
	return errors.Join(unix.Close(p.fd), p.own.Close(), p.view.Close())
}
