package driver

import (
	"fmt"
	"slices"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/shard"
)

// port is a port of the adapter, and what waits to be sent there. The driver's lock guards batch,
// blocked and writing.
type port struct {
	fabric.Port
	num     uint8 // of the shard's ports
	batch   *fabric.Batch
	blocked bool // the port was full; the batch waits
	writing bool // a thread waits for room in the port
}

// ports are the ports of the adapter, in the order of the shard's.
type ports []port

// newPorts numbers ports from 1, and gives each its batch.
func newPorts(of []fabric.Port) ports {
	ports := make(ports, len(of))
	for i, p := range of {
		ports[i] = port{Port: p, num: uint8(i + 1), batch: fabric.NewBatch(batchBytes, p.Caps())}
	}
	return ports
}

// full reports whether a port has no room for its batch.
func (ps ports) full() bool { return slices.ContainsFunc(ps, func(p port) bool { return p.blocked }) }

// ignoresRoom reports whether the port is full and no thread waits for room.
func (p *port) ignoresRoom() bool { return p.blocked && !p.writing }

// canSend reports whether the shard has something to send to a port that is not full.
func (ps ports) canSend(s *shard.Shard) bool {
	for i := range ps {
		if p := &ps[i]; !p.blocked && s.Pending(p.num) {
			return true
		}
	}
	return false
}

// wakeWatchers wakes the goroutines that wait for arrivals only although their port is full.
func (ps ports) wakeWatchers() {
	for i := range ps[1:] {
		if p := &ps[1+i]; p.ignoresRoom() {
			p.Wake()
		}
	}
}

// wake ends the waits at all ports.
func (ps ports) wake() {
	for i := range ps {
		ps[i].Wake()
	}
}

// watch is the goroutine of a port after the first: it waits for arrivals, and for room if the
// port is full. Timers, and what other ports send, are not its task.
func (d *Driver) watch(p *port) {
	for {
		write, alive := d.attendPort(p)
		if !alive {
			return
		}
		if err := p.Wait(-1, true, write); err != nil {
			_ = d.fail(fmt.Errorf("%w: wait: %w", ErrDead, err)) // does nothing if the device was closed
			d.attend(true)
			return
		}
	}
}

// attendPort receives and sends once, and reports whether the goroutine of the port waits for
// room.
func (d *Driver) attendPort(p *port) (write, alive bool) {
	d.mu.Lock()
	defer func() { _ = d.release(recover()) }()
	if d.dead != nil {
		return false, false
	}
	_, now := d.receive(d.Now())
	d.answer(now)
	p.writing = p.blocked
	return p.writing, d.dead == nil
}
