package virtual

import (
	"net/netip"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/roce"
)

// Adapter is an adapter in virtual time, with a protection domain.
type Adapter struct {
	Index int
	Addrs []netip.Addr
	HCA   *hca.HCA
	PD    *hca.PD
	Batch *fabric.Batch
	// Deadline is when its timers are due, as far as Step needs to know.
	Deadline clock.Instant
}

// Caps are the abilities of the port of an adapter.
func Caps(addrs ...netip.Addr) fabric.Caps {
	return fabric.Caps{Name: "virtual", Addrs: addrs, MTU: 65507, MaxSegments: 64, MaxRunBytes: 65000}
}

// Open makes the adapter, for the first time or again, with a transmit batch of
// a number of bytes. The configuration has its port's abilities.
func (a *Adapter) Open(c hca.Config, batch int) (err error) {
	a.Batch, a.Deadline = fabric.NewBatch(batch, c.Caps), clock.Never
	if a.HCA, err = hca.New(c); err == nil {
		a.PD, err = a.HCA.AllocPD()
	}
	return err
}

// Transmit lets the adapter fill its batch and carries the runs in it. It
// reports whether there is more.
func (a *Adapter) Transmit(now clock.Instant, carry func(*fabric.Run)) (more bool) {
	more = a.HCA.Single().Transmit(now, a.Batch)
	runs := a.Batch.Pending()
	for i := range runs {
		carry(&runs[i])
	}
	a.Batch.Reset()
	return more
}

// Arrival returns segments lo to hi of a run as their receiver gets them. The
// bytes are those of the run.
func Arrival(run *fabric.Run, lo, hi int) fabric.Datagram {
	d := fabric.Datagram{
		Bytes: run.Bytes[lo*run.Size : min(hi*run.Size, len(run.Bytes))], Src: run.Path.Src, Dst: run.Path.Dst,
		SrcPort: run.Path.SrcPort, DstPort: fabric.RoCEPort, ID: uint16(lo), IDKnown: true, TClass: run.Path.TClass, HopLimit: run.Path.HopLimit,
	}
	if hi-lo > 1 {
		d.Stride = run.Size
	}
	return d
}

// Forgery returns a datagram with a packet that no adapter has sent. Its ICRC is
// right.
func Forgery(p *roce.Packet, src, dst netip.Addr, port uint16) fabric.Datagram {
	d := fabric.Datagram{
		Bytes: make([]byte, roce.Size(p.BTH.Opcode, len(p.Payload))), Src: src, Dst: dst, SrcPort: port, DstPort: fabric.RoCEPort,
		IDKnown: true, HopLimit: 64,
	}
	p.Build(d.Bytes)
	Seal(&d)
	return d
}

// Seal gives a datagram the ICRC of its addresses.
func Seal(d *fabric.Datagram) {
	roce.Seal(d.Bytes, roce.NewPrefix(d.Src, d.Dst, d.SrcPort, d.DstPort, len(d.Bytes)).WithID(d.ID))
}
