package cm

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// The verbs of a connection, one for each message that a consumer sends. They
// do not block. Errors: EINVAL if the state does not allow the verb or a value
// is out of range, EADDRNOTAVAIL if the source of a path is not an address of
// the adapter. A failed verb changes nothing.

// SendREQ asks the peer for a connection (C3). It is repeated until REP, REJ or
// MRA comes, or the retries are spent, which is the event REQ_ERROR. ENOMEM
// when the manager has no room for another connection. It first evicts a
// connection in TIMEWAIT or one with a silent peer, whose handler is called
// before SendREQ returns.
func (c *Conn) SendREQ(now clock.Instant, p *REQParams) error {
	return c.step(CallREQ, &stimulus{now: now, req: p})
}

// SendREP accepts the peer's REQ. The QP must be able to receive: data can
// follow at once. It is repeated until RTU comes or Establish is called, or
// the retries are spent: REP_ERROR.
func (c *Conn) SendREP(now clock.Instant, p *REPParams) error {
	return c.step(CallREP, &stimulus{now: now, rep: p})
}

// SendRTU completes the connection at the peer (C4). At most 224 bytes of
// private data.
func (c *Conn) SendRTU(now clock.Instant, private []byte) error {
	return c.step(CallRTU, &stimulus{now: now, private: private})
}

// SendREJ refuses the peer's last message (C7).
func (c *Conn) SendREJ(now clock.Instant, p *REJParams) error {
	return c.step(CallREJ, &stimulus{now: now, rej: p})
}

// SendMRA tells the peer to wait for as long as a 5-bit code says (C7).
func (c *Conn) SendMRA(now clock.Instant, timeout uint8, private []byte) error {
	return (&stimulus{now: now, mra: timeout, private: private}).mraCall(c, CallMRA)
}

// PrepareMRA sends the MRA only once the peer repeats its message.
func (c *Conn) PrepareMRA(now clock.Instant, timeout uint8, private []byte) error {
	return (&stimulus{now: now, mra: timeout, private: private}).mraCall(c, CallMRALater)
}

func (x *stimulus) mraCall(c *Conn, on Input) error {
	if x.mra > 31 {
		return fmt.Errorf("%v: service timeout %d (0 to 31): %w", on, x.mra, ib.EINVAL)
	}
	return c.step(on, x)
}

// Establish reports that data of the peer has arrived on a passive connection,
// which replaces the RTU (Q9, C4). EISCONN if it is established already.
func (c *Conn) Establish(now clock.Instant) error {
	return c.step(CallEstablish, &stimulus{now: now})
}

// SendDREQ ends an established connection (C5). It is repeated until DREP
// comes or the retries are spent: DREQ_ERROR. Either way TIMEWAIT follows.
func (c *Conn) SendDREQ(now clock.Instant, private []byte) error {
	return c.step(CallDREQ, &stimulus{now: now, private: private})
}

// SendDREP answers the peer's DREQ; TIMEWAIT follows.
func (c *Conn) SendDREP(now clock.Instant, private []byte) error {
	return c.step(CallDREP, &stimulus{now: now, private: private})
}

// SendLAP asks the peer to load an alternate path (C10). Only the active side
// may. It is repeated until APR comes.
func (c *Conn) SendLAP(now clock.Instant, alternate *Path, private []byte) error {
	return c.step(CallLAP, &stimulus{now: now, lap: alternate, private: private})
}

// SendAPR answers the peer's LAP.
func (c *Conn) SendAPR(now clock.Instant, p *APRParams) error {
	return c.step(CallAPR, &stimulus{now: now, apr: p})
}

// SendSIDRREQ asks for the QP behind a service (C9). It is repeated until
// SIDR_REP comes or the retries are spent: SIDR_REQ_ERROR.
func (c *Conn) SendSIDRREQ(now clock.Instant, p *SIDRREQParams) error {
	return c.step(CallSIDRREQ, &stimulus{now: now, sidrReq: p})
}

// SendSIDRREP answers the peer's SIDR_REQ.
func (c *Conn) SendSIDRREP(now clock.Instant, p *SIDRREPParams) error {
	return c.step(CallSIDRREP, &stimulus{now: now, sidrRep: p})
}
