package cm

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/mad"
)

// Extended reliable connections (IBA annex A14): the active side has the initiator, the passive
// one the target. Messages leave out what an initiator does not answer and what a target does not
// send. In a REP the number of the target is where an EE context's would be.

// xrc reports whether the connection is an extended reliable one.
func (e *endpoint) xrc() bool { return e.transport == mad.TransportExtended }

// asXRC makes a REQ that of an initiator.
func (p *REQParams) asXRC(m *mad.REQ) {
	m.ExtendedTransport = mad.ExtendedXRC
	m.ResponderResources, m.RetryCount, m.RNRRetryCount, m.SRQ = 0, 0, 0, false
}

// asXRC makes a REP that of a target.
func (p *REPParams) asXRC(m *mad.REP) {
	m.LocalQPN, m.LocalEECN, m.SRQ = 0, uint32(p.QPN), true
	m.InitiatorDepth, m.EndToEndFlowControl = 0, false
}

// numberIn returns the QPN that a REP names.
func (e *endpoint) numberIn(p *mad.REP) ib.QPN {
	if e.xrc() {
		return ib.QPN(p.LocalEECN)
	}
	return p.LocalQPN
}
