package near

import (
	"io"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/near/ring"
	"github.com/softhca/softhca/internal/packet"
)

const (
	inboxLen    = 16 // datagrams read from the wrapped port at once
	networkTurn = 16 // calls of Receive between two reads of the wrapped port, while it is empty and no Wait ends
)

// Receive implements fabric.Port.
func (p *Port) Receive(ds []fabric.Datagram) (int, error) {
	if !p.Enter() {
		return 0, fabric.ErrClosed
	}
	defer p.Exit()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.news.Load() {
		p.attend()
	}
	if len(p.peers) == 0 && len(p.held) == 0 {
		return p.Inner.Receive(ds)
	}
	for _, r := range p.peers {
		if r.In.Release() {
			r.wake()
		}
	}
	if err := p.readNetwork(); err != nil {
		return 0, err
	}
	n := p.readRings(ds)
	if p.cfg.Sealed {
		p.seal(ds[:n])
	}
	k := copy(ds[n:], p.held)
	p.held = p.held[k:]
	return n + k, nil
}

// readNetwork reads the wrapped port if it is due, and Receive has returned all datagrams of the
// last read.
func (p *Port) readNetwork() error {
	p.calls++
	if len(p.held) > 0 || p.empty && !p.waited.Load() && p.calls%networkTurn != 0 {
		return nil
	}
	p.waited.Store(false)
	n, err := p.Inner.Receive(p.inbox)
	if err != nil {
		return err
	}
	p.held, p.empty = p.inbox[:n], n == 0
	p.read += uint64(n)
	p.screen(p.held)
	return nil
}

// mostQueued is more than the number of datagrams that can wait in the socket buffers of a port.
const mostQueued = 1 << 16

// isRead reports whether all that the network brought before the meeting with a peer is passed on:
// nothing was left at a later read, or more has been passed on since than can have waited. A network
// that never falls silent would otherwise stop the peer.
func (p *Port) isRead(r *peer) bool {
	return p.empty || p.read-uint64(len(p.held)) > r.before+mostQueued
}

// readRings fills ds from the rings. Each call begins with another ring.
func (p *Port) readRings(ds []fabric.Datagram) (n int) {
	var packets, bytes int
	for i := range p.peers {
		r := p.peers[(p.turn+i)%len(p.peers)]
		if r.fresh = r.fresh && !p.isRead(r); r.fresh {
			continue
		}
		var rec ring.Record
		for n < len(ds) && r.In.Next(&rec) {
			r.datagram(&rec, &ds[n])
			packets, bytes = packets+rec.Count, bytes+len(rec.Bytes)
			n++
		}
		err := r.In.Err()
		if r.drained || err == nil && (!r.gone.Load() || n == len(ds)) {
			continue
		}
		r.drained = true
		p.news.Store(true)
		if err != nil && err != io.EOF {
			p.garbled(r, err)
		}
	}
	p.turn++
	if n > 0 {
		p.countReceived(packets, bytes)
	}
	return n
}

// seal replaces packets without an ICRC by copies with one.
func (p *Port) seal(ds []fabric.Datagram) {
	p.sealed = p.sealed[:0]
	for i := range ds {
		if ds[i].Bare {
			p.sealed = packet.SealDatagram(&ds[i], p.sealed)
		}
	}
}

// datagram converts a record. Its addresses are those of the meeting.
func (r *peer) datagram(rec *ring.Record, d *fabric.Datagram) {
	*d = fabric.Datagram{
		Bytes: rec.Bytes, Src: r.key.remote, Dst: r.key.local,
		SrcPort: fabric.RoCEPort, DstPort: fabric.RoCEPort, IDKnown: r.key.local.Is4(),
		Bare:   rec.Tag&tagBare != 0,
		TClass: uint8(rec.Tag), HopLimit: uint8(rec.Tag >> hopShift), FlowLabel: uint32(rec.Tag>>flowShift) & flowMask,
	}
	if rec.Count > 1 {
		d.Stride = rec.Stride
	}
}
