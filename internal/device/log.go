package device

import (
	"log/slog"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/eventlog"
	"github.com/softhca/softhca/internal/fabric/capture"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/trace"
)

// eventLog returns the log of the device's events, nil for none. It goes to Config.Log, and between the
// packets of a capture.
func (c *Config) eventLog() *eventlog.Log {
	if c.Capture == nil && c.Log == nil {
		return nil
	}
	var whole *slog.Logger
	if c.Capture != nil {
		c.journal = new(capture.Journal)
		whole = slog.New(c.journal.Handler())
	}
	return eventlog.New(c.Log, whole)
}

// CallFailed logs that a call of the program failed. about says on which object.
func (d *Device) CallFailed(name string, err error, about ...slog.Attr) {
	d.log.Call(name, err, about...)
}

// tracer returns the tracer that calls the tracers of the configuration and logs, nil if none is wanted. It also
// reports whether it needs neither packets nor completions with success, which would cost time and not be logged.
func (c *Config) tracer(log *eventlog.Log) (all trace.Tracer, rare bool) {
	t, refused := c.Trace, c.Refused
	switch {
	case t == nil && refused == nil && log == nil:
		return nil, false
	case refused == nil && log == nil:
		return t, false
	}
	return func(r *trace.Record) {
		if t != nil {
			t(r)
		}
		if refused != nil && r.Kind == trace.Refusal {
			refused(r)
		}
		if log != nil {
			log.Record(r)
		}
	}, t == nil && (log == nil || !log.Detailed())
}

// Explains reports whether refusals are traced. If they are, regions should have the function that registers them.
func (d *Device) Explains() bool { return d.explains }

// raise passes an event to the program. It logs events of other objects than queue pairs and EE contexts:
// for the events of these, the log gets records.
func (d *Device) raise(e qp.Event) {
	if d.log != nil {
		d.logEvent(e)
	}
	d.events.raise(e)
}

func (d *Device) logEvent(e qp.Event) {
	switch {
	case e.QPN != 0 || e.EEC != 0:
	case e.CQ != nil:
		d.log.Event(e.Type, slog.Uint64("cq", uint64(e.CQ.Number())))
	case e.SRQ != nil:
		d.log.Event(e.Type, slog.Uint64("srq", uint64(e.SRQ.Number())))
	default:
		d.log.Event(e.Type, slog.Uint64("port", uint64(e.Port)))
	}
}

// raiseFatal tells the program that the device has failed.
func (d *Device) raiseFatal(cause error) {
	if d.log != nil {
		d.log.Event(ib.EventDeviceFatal, slog.Any("err", cause))
	}
	d.events.fatal(cause)
}
