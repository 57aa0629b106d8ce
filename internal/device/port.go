package device

import (
	"fmt"
	"strings"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/capture"
	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/fault"
)

// openPort opens what the configuration names. Faults happen between the
// network and the capture: it shows what the adapter sends and receives.
func (c *Config) openPort(faults *injector) (fabric.Port, error) {
	addrs, err := resolve(c.Addr)
	if err != nil {
		return nil, err
	}
	var p fabric.Port
	switch {
	case c.Network != nil:
		p, err = c.Network.Port(addrs...)
	case c.Raw:
		p, err = openRaw(addrs)
	default:
		u := udp.Config{Addrs: addrs, DisableGRO: c.DisableOffload, Counts: &c.Board.Port}
		if c.DisableOffload {
			u.GSO = udp.GSOOff
		}
		p, err = udp.Open(u)
	}
	if err != nil {
		return nil, fmt.Errorf("open adapter on %s: %w", strings.Trim(fmt.Sprint(addrs), "[]"), err)
	}
	var w *capture.Port
	if faults != nil {
		f := fault.Config{Rules: faults.all, Now: faults.now, Trace: c.Trace}
		if c.Capture != nil {
			f.Mark = func(m *fault.Mark) { record(w, m) }
		}
		p = fault.Wrap(p, f)
	}
	if c.Capture == nil {
		return p, nil
	}
	w, err = capture.Wrap(p, c.Capture, capture.Options{})
	if err != nil {
		_ = p.Close() // the error that matters is the capture's
		return nil, err
	}
	return w, nil
}

// record has the capture say what a fault does to a packet. One that is lost or
// changed on its way in is not received as it was: it is recorded nevertheless.
func record(w *capture.Port, m *fault.Mark) {
	if m.Dir == fault.In && (m.Lost || m.Changed) {
		w.Arrived(&fabric.Datagram{Src: m.Src, Dst: m.Dst, SrcPort: m.SrcPort, DstPort: fabric.RoCEPort, Bytes: m.Bytes, HopLimit: hopLimit}, m.Text)
		return
	}
	w.Note(m.Bytes, m.Text)
}

// hopLimit stands in the record of a packet whose own is not known any more; no
// checksum of RoCEv2 covers it.
const hopLimit = 64

// CaptureErr returns the first error of writing Config.Capture, after which
// nothing more was written; nil without a capture.
func (d *Device) CaptureErr() error {
	if d == nil {
		return nil
	}
	p, ok := d.Port.(interface{ Err() error })
	if !ok {
		return nil
	}
	if err := p.Err(); err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	return nil
}
