//go:build linux

package main

import "time"

// receiver checks, copies and counts the segments of one sender at a time.
type receiver struct {
	sock   *socket
	region []byte
	used   int // bytes of the region; it is filled cyclically
	report report
	answer [reportLen]byte
}

// newReceiver returns a receiver on sock.
func newReceiver(sock *socket) *receiver {
	return &receiver{sock: sock, region: make([]byte, regionLen)}
}

// serve receives until the socket fails or is shut.
func (r *receiver) serve() error {
	for {
		b, segment, err := r.sock.await(100 * time.Millisecond)
		if err != nil {
			return err
		}
		for len(b) > 0 {
			n := min(segment, len(b))
			if reply := r.handle(b[:n]); reply != nil {
				r.sock.answer()
				if err := r.sock.send(reply, len(reply)); err != nil {
					return err
				}
			}
			b = b[n:]
		}
	}
}

// handle takes one message and returns the answer, nil for none. The answer is
// valid until the next call.
func (r *receiver) handle(b []byte) (reply []byte) {
	h, ok := parseHeader(b)
	if !ok {
		return nil
	}
	switch h.kind {
	case kindStart:
		r.report = report{next: h.seq}
	case kindProbe:
		r.report.next = max(r.report.next, h.seq)
	case kindData:
		if !r.data(h, b) || h.flags&flagAck == 0 {
			return nil
		}
	default:
		return nil
	}
	return r.report.put(r.answer[:])
}

// data counts a segment and copies its payload, which is right before the CRC;
// it returns false for a damaged one.
func (r *receiver) data(h header, seg []byte) bool {
	if !intact(seg, h.payload) {
		r.report.damaged++
		return false
	}
	end := len(seg) - crcLen
	payload := seg[end-int(h.payload) : end]
	if r.used+len(payload) > len(r.region) {
		r.used = 0
	}
	r.used += copy(r.region[r.used:], payload)
	r.report.packets++
	r.report.next = max(r.report.next, h.seq+1)
	return true
}
