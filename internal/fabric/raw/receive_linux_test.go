package raw

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric"
)

// TestCutPacketsAreCounted has the kernel hand over a packet that was longer than
// its buffer, and one that has not even its virtual header.
func TestCutPacketsAreCounted(t *testing.T) {
	p := &Port{recv: newReceiver(1)}
	var d fabric.Datagram
	p.recv.msgs[0].hdr.Flags, p.recv.msgs[0].len = unix.MSG_TRUNC, recvSize
	p.recv.msgs[1].len = vnetLen - 1
	for i := range 2 {
		if p.datagram(i, &d) {
			t.Errorf("packet %d is handed on", i)
		}
		if n := p.Counts.Stats().Truncated; n != uint64(i+1) {
			t.Errorf("after packet %d the cut ones are %d", i, n)
		}
	}
	p.recv.reset(0)
	p.recv.msgs[0].len = vnetLen // nothing is behind it, but it is whole
	if p.datagram(0, &d) || p.Counts.Stats().Truncated != 2 {
		t.Errorf("an empty packet is handed on, or counted as cut (%d)", p.Counts.Stats().Truncated)
	}
}
