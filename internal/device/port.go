package device

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/softhca/softhca/internal/broker"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/capture"
	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/fault"
	"github.com/softhca/softhca/mad"
)

// openPort opens the configured port. Faults act between the network and the
// capture, so the capture shows what the adapter sends and receives.
//
// The Lease is the process's slot on the port's addresses; the caller closes it
// after the port. It is nil if the process does not share them.
func (c *Config) openPort(faults *injector) (p fabric.Port, lease *broker.Lease, err error) {
	addrs, err := resolve(c.Addr)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case c.Network != nil:
		p, err = c.Network.Port(addrs...)
	case c.Raw:
		p, err = openRaw(addrs)
	default:
		u := udp.Config{Addrs: addrs, DisableGRO: c.DisableOffload, Counts: &c.Board.Port, Idle: c.Idle}
		if c.DisableOffload {
			u.GSO = udp.GSOOff
		}
		if lease, err = c.join(addrs, &u); err == nil {
			p, err = c.openUDP(u, faults != nil || c.Capture != nil)
		}
	}
	if err != nil {
		lease.Close()
		return nil, nil, fmt.Errorf("open adapter on %s: %w", strings.Trim(fmt.Sprint(addrs), "[]"), err)
	}
	var w *capture.Port
	if faults != nil {
		f := fault.Config{Rules: faults.all, Now: faults.now, Trace: c.Trace, Acted: faults.actedOnPacket}
		if faults.sites != nil {
			f.Count = faults.countPacket
		}
		if c.Capture != nil {
			f.Mark = func(m *fault.Mark) { record(w, m) }
		}
		p = fault.Wrap(p, f)
	}
	if c.Capture == nil {
		return p, lease, nil
	}
	w, err = capture.Wrap(p, c.Capture, capture.Options{Prompt: c.PromptCapture, Journal: c.journal})
	if err != nil {
		_ = p.Close() // report the error of the capture
		lease.Close()
		return nil, nil, err
	}
	return w, lease, nil
}

// join gets a slot on the addresses, which processes of one user share. It
// returns nil if the configuration sets QPNSlot or Exclusive.
func (c *Config) join(addrs []netip.Addr, u *udp.Config) (*broker.Lease, error) {
	alone := c.QPNSlot != 0 || c.Exclusive
	if c.Idle {
		return nil, broker.Look(addrs, !alone, c.Env.Secret())
	}
	if alone {
		return nil, nil
	}
	guid, _, err := c.guid(addrs[0])
	if err != nil {
		return nil, err
	}
	lease, sockets, err := broker.Enter(broker.Config{Addrs: addrs, GUID: guid, Secret: c.Env.Secret(), Log: c.Warn})
	if err != nil || lease == nil {
		return nil, err
	}
	u.Lease, c.QPNSlot = sockets, lease.Slot
	if c.NodeGUID == 0 && c.Env.GUID == "" {
		c.NodeGUID = lease.GUID
	}
	return lease, nil
}

// connections returns the device's connections for the broker.
func (d *Device) connections() (all []broker.Connection) {
	_ = d.Control(func(clock.Instant) error { // a failed device has no connections to end
		d.HCA.CM().EachConn(func(c *cm.Conn) {
			k := broker.Connection{LocalID: c.LocalID(), RemoteID: c.RemoteID()}
			switch c.State() {
			case cm.ReqRcvd, cm.MRAReqSent, cm.RepSent, cm.MRARepRcvd:
				k.LocalID = 0
			case cm.RepRcvd, cm.MRARepSent, cm.Established, cm.DReqSent, cm.DReqRcvd:
			default: // it has no peer yet, or no longer
				return
			}
			k.Peer, k.QPN = c.Peer()
			all = append(all, k)
		})
		return nil
	})
	return all
}

// Claim makes the device receive the requests for a service. A process that shares
// its address with others must call it before its connection manager listens. It
// may wait for the broker. Errors: EADDRINUSE when another process has the
// service, EAGAIN without a broker.
func (d *Device) Claim(s mad.ServiceID) error {
	if d.lease == nil {
		return nil
	}
	return d.lease.Claim(s)
}

// Release undoes a Claim.
func (d *Device) Release(s mad.ServiceID) {
	if d.lease != nil {
		d.lease.Release(s)
	}
}

// ClaimDomain gives this process the XRC domain of a file, which at most one of the processes
// on an address has. It may wait for the broker. Errors: EADDRINUSE when another process has
// the domain, EAGAIN without a broker.
func (d *Device) ClaimDomain(file string) error {
	if d.lease == nil {
		return nil // no other process can open the address
	}
	return d.lease.ClaimDomain(file)
}

// ReleaseDomain undoes a ClaimDomain.
func (d *Device) ReleaseDomain(file string) {
	if d.lease != nil {
		d.lease.ReleaseDomain(file)
	}
}

// record makes the capture note what a fault did to a packet. It also records
// the original of an incoming packet that a fault dropped or changed.
func record(w *capture.Port, m *fault.Mark) {
	if m.Dir == fault.In && (m.Lost || m.Changed) {
		w.Arrived(&fabric.Datagram{Src: m.Src, Dst: m.Dst, SrcPort: m.SrcPort, DstPort: fabric.RoCEPort, Bytes: m.Bytes, HopLimit: hopLimit}, m.Text, m.Before)
		return
	}
	w.Note(m.Bytes, m.Text)
}

// hopLimit is recorded for a packet whose hop limit is unknown; no RoCEv2
// checksum covers it.
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
