package judge

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/packet"
	"github.com/softhca/softhca/roce"
)

// Bounds of the wire.
const (
	wireBatch   = 1 << 16 // bytes; one packet is sent at a time
	maxArrivals = 1 << 16 // packets of one step
	injectPort  = 0xc123  // UDP source port, if the port has none
)

// errOddLength says that the kernel's IPv4 ID would spoil the ICRC of a packet
// of such a length on a raw port.
var errOddLength = errors.New("a raw port cannot send a packet whose length is not a multiple of 4")

// wire sends the packets of a script and collects those of the adapter.
type wire struct {
	port        fabric.Port
	batch       *fabric.Batch
	local, peer netip.Addr
	in          [16]fabric.Datagram
	arrived     []arrival
	damaged     int // packets of the peer with a wrong ICRC
	lost        int // arrivals beyond the bound
}

// arrival is a packet of the adapter.
type arrival struct {
	packet roce.Packet
	bytes  []byte
	at     time.Time
}

func newWire(port fabric.Port, local, peer netip.Addr) *wire {
	return &wire{port: port, batch: fabric.NewBatch(wireBatch, port.Caps()), local: local, peer: peer}
}

// send puts a packet on the wire; build makes its bytes, given the IP and UDP
// headers before them.
func (w *wire) send(hopLimit, tclass uint8, build func(prefix func(n int) roce.Prefix) ([]byte, error)) ([]byte, error) {
	path := fabric.Path{Src: w.local, Dst: w.peer, SrcPort: injectPort, HopLimit: hopLimit, TClass: tclass}
	from := path.SrcPort
	if p := w.port.Caps().SrcPort; p != 0 {
		from = p
	}
	b, err := build(func(n int) roce.Prefix {
		return roce.NewPrefix(w.local, w.peer, from, fabric.RoCEPort, n).WithID(0)
	})
	if err != nil {
		return nil, err
	}
	if len(b)%4 != 0 && w.local.Is4() && w.port.Caps().Verify == fabric.VerifyFull {
		return nil, errOddLength
	}
	seg, _ := w.batch.Append(&path, len(b))
	if seg == nil {
		return nil, fmt.Errorf("a packet of %d bytes is too large", len(b))
	}
	copy(seg, b)
	for {
		err := w.port.Send(w.batch)
		if !errors.Is(err, fabric.ErrBlocked) {
			return b, err
		}
		if err := w.port.Wait(time.Second, false, true); err != nil {
			return nil, err
		}
	}
}

// pump takes in arrivals, for which it waits at most d.
func (w *wire) pump(d time.Duration) error {
	if err := w.port.Wait(d, true, false); err != nil {
		return err
	}
	for {
		n, err := w.port.Receive(w.in[:])
		if err != nil || n == 0 {
			return err
		}
		for i := range n {
			w.take(&w.in[i])
		}
	}
}

func (w *wire) take(d *fabric.Datagram) {
	if d.Src != w.peer || d.DstPort != fabric.RoCEPort {
		return
	}
	var v packet.Verifier
	v.Begin(d)
	for off, k := 0, 0; off < len(d.Bytes); k++ {
		var seg []byte
		seg, off = d.Segment(off)
		a := arrival{bytes: bytes.Clone(seg), at: time.Now()}
		_, ok := v.Verify(d, seg, k)
		switch {
		case len(w.arrived) == maxArrivals:
			w.lost++
		case a.packet.Parse(a.bytes) != roce.FaultNone || !ok:
			w.damaged++
		default:
			w.arrived = append(w.arrived, a)
		}
	}
}

// drain returns the arrivals and clears the list.
func (w *wire) drain() []arrival {
	all := w.arrived
	w.arrived = nil
	return all
}
