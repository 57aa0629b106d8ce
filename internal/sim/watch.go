package sim

import (
	"net/netip"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
)

// Watch has functions that a run of pairs calls when something happens, so that others
// compare what they conclude from packets with the truth. A function that is nil is not
// called. What the run does after the network is whole again and nothing is pending is not
// reported.
type Watch struct {
	// Sent reports a packet that an adapter sends, before the network does anything to it. The
	// datagram is valid during the call.
	Sent func(at time.Duration, d *fabric.Datagram)
	// Arrived likewise reports one that an adapter gets from another one, and whether its bytes
	// were changed.
	Arrived func(at time.Duration, d *fabric.Datagram, damaged bool)
	// Harmed reports that something happened to packets or clocks: the packet was lost, repeated, delayed
	// or damaged, the clock jumped.
	Harmed func()
	// Completed reports the end of a send work request, also of one without a completion.
	Completed func(e End, bytes int, s ib.WCStatus)
	// Ended reports that a program reset or destroyed a queue pair, or that its adapter
	// restarted.
	Ended func(e End)
}

// End is a queue pair of a connection, by its first path.
type End struct {
	Addr netip.Addr
	QPN  ib.QPN
}

// name returns the end as others know it.
func (e *end) name() End { return End{e.node.addrs[e.gidOn(0)], e.num} }

// told returns the functions to call.
func (w *world) told() *Watch {
	if w.cfg.Watch == nil || w.over {
		return &Watch{}
	}
	return w.cfg.Watch
}

// harmed reports that something did not just arrive.
func (w *world) harmed() {
	if f := w.told().Harmed; f != nil {
		f()
	}
}

// leaves reports segment i of a run that is sent.
func (w *world) leaves(run *fabric.Run, i int) {
	if f := w.told().Sent; f != nil {
		f(time.Duration(w.now), &fabric.Datagram{
			Bytes: run.Segment(i), Src: run.Path.Src, Dst: run.Path.Dst, SrcPort: run.Path.SrcPort, DstPort: fabric.RoCEPort,
			ID: uint16(i), IDKnown: true, TClass: run.Path.TClass, HopLimit: run.Path.HopLimit,
		})
	}
}

// arrived reports a packet that has arrived.
func (w *world) arrived(p *packet) {
	if f := w.told().Arrived; f != nil && !p.forged && !p.lie {
		f(time.Duration(w.now), &p.d, p.damaged)
	}
}

// ended reports the end of a send work request.
func (e *end) ended(o *op, s ib.WCStatus) {
	if f := e.w.told().Completed; f != nil && e.pair != nil {
		f(e.name(), o.length, s)
	}
}

// gone reports that the queue pair begins anew, or ends.
func (e *end) gone() {
	if f := e.w.told().Ended; f != nil && e.pair != nil {
		f(e.name())
	}
}
