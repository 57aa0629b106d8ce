//go:build linux

package programs

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"

	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/interop/frames"
)

// packet is a packet in a capture or on the wire: its direction, and the hash of
// its bytes from the BTH to the ICRC.
type packet struct {
	out  bool
	hash [sha256.Size]byte
}

// compareCapture compares the capture of our adapter on an address with the wire: it
// must have all packets that left, and no arrivals but those on the wire. It may
// lack arrivals after the adapter was closed.
func compareCapture(file string, own netip.Addr, fs []frames.Frame) error {
	wire := map[packet]int{}
	left := 0
	for i := range fs {
		f := &fs[i]
		if f.Payload == nil {
			return errors.New("the wire's record is full: nothing to compare it with")
		}
		wire[packet{f.Out, sha256.Sum256(f.Payload)}]++
		if f.Out {
			left++
		}
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // cannot lose data: it was only read
	r, err := pcapfile.NewReader(bufio.NewReader(f))
	if err != nil {
		return err
	}
	captured := 0
	for {
		p, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		out := p.Src.Unmap() == own
		at := packet{out, sha256.Sum256(p.Payload)}
		if wire[at] == 0 {
			return fmt.Errorf("record %d, from %v to %v, was not on the wire", p.Record, p.Src, p.Dst)
		}
		wire[at]--
		if out {
			captured++
		}
	}
	if captured != left {
		return fmt.Errorf("it has %d of the %d packets that we sent", captured, left)
	}
	return nil
}
