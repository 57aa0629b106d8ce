package sim

import (
	"net/netip"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/virtual"
)

// Watch has functions that a run of pairs calls on events, so that other tests can compare
// their conclusions from packets with the truth. nil functions are not called. Events
// after the network has healed and nothing is pending are not reported.
type Watch struct {
	// Sent reports a packet that an adapter sends, before the network handles it. The datagram
	// is valid during the call.
	Sent func(at time.Duration, d *fabric.Datagram)
	// Arrived reports a packet that an adapter receives from another one, and whether its bytes
	// were changed.
	Arrived func(at time.Duration, d *fabric.Datagram, damaged bool)
	// Harmed reports that a packet was lost, repeated, delayed or damaged, or that the clock
	// jumped.
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

// name returns the End of e.
func (e *end) name() End { return End{e.node.Addrs[e.paths.gidOn(0)], e.num} }

// told returns the functions to call.
func (w *world) told() *Watch {
	if w.watch == nil || w.over {
		return &Watch{}
	}
	return w.watch
}

// harmed reports harm to a packet or a clock.
func (w *world) harmed() {
	if f := w.told().Harmed; f != nil {
		f()
	}
}

// leaves reports segment i of a run that is sent.
func (w *world) leaves(run *fabric.Run, i int) {
	if f := w.told().Sent; f != nil {
		d := virtual.Arrival(run, i, i+1)
		f(time.Duration(w.Now), &d)
	}
}

// arrived reports a packet that has arrived.
func (w *world) arrived(p *virtual.Packet) {
	if f := w.told().Arrived; f != nil && p.Forged == "" && !p.Claim {
		f(time.Duration(w.Now), &p.Datagram, p.Damaged)
	}
}

// ended reports the end of a send work request.
func (e *end) ended(o *op, s ib.WCStatus) {
	if f := e.w.told().Completed; f != nil && e.pair != nil {
		f(e.name(), o.length, s)
	}
}

// gone reports that the queue pair is reset or destroyed.
func (e *end) gone() {
	if f := e.w.told().Ended; f != nil && e.pair != nil {
		f(e.name())
	}
}
