package demo

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// The parameters of the connection.
const (
	servicePort = 7471
	readDepth   = 4 // outstanding READs and atomics
	retries     = 7
	// ackTimeout is long, so that a busy host does not retransmit needlessly. It also
	// determines the duration of TIMEWAIT.
	ackTimeout = 17
	// A lost CM message is repeated after half a second rather than after four
	// seconds.
	responseTimeout = 17
	messageRetries  = 4
)

// listen makes n listen for connections.
func (n *node) listen() (err error) {
	n.Local = netip.AddrPortFrom(n.ip(), servicePort)
	if n.listener, err = n.Bind(n.ch, n.space); err != nil {
		return err
	}
	return n.listener.Listen(1)
}

// inOrder calls functions until one returns an error.
func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// hears returns a function that waits for an event.
func (n *node) hears(ctx context.Context, want rdmacm.EventType) func() error {
	return func() error {
		_, err := n.wait(ctx, want)
		return err
	}
}

// dial connects to peer.
func (n *node) dial(ctx context.Context, peer *node) (err error) {
	if n.id, err = n.NewID(n.ch, n.space); err != nil {
		return err
	}
	return inOrder(
		func() error { return n.id.SetAckTimeout(n.timeout) },
		func() error { return n.id.ResolveAddr(netip.AddrPortFrom(n.ip(), 0), peer.Local) },
		n.hears(ctx, rdmacm.EventAddrResolved),
		func() error { return n.id.ResolveRoute() },
		n.hears(ctx, rdmacm.EventRouteResolved),
		n.createQP,
		func() error { return n.id.Connect(n.connParam()) })
}

// accept accepts the next connection request.
func (n *node) accept(ctx context.Context) error {
	e, err := n.wait(ctx, rdmacm.EventConnectRequest)
	if err != nil {
		return err
	}
	n.id = e.ID
	if err := n.createQP(); err != nil {
		return err
	}
	return n.id.Accept(n.connParam())
}

func (n *node) connParam() *rdmacm.ConnParam {
	return &rdmacm.ConnParam{
		ResponderResources: readDepth, InitiatorDepth: readDepth, RetryCount: n.retries, RNRRetryCount: retries,
		Channel: n.over,
	}
}

// createQP creates the queue pair of the node's connection.
func (n *node) createQP() error {
	err := n.id.CreateQP(n.pd, &verbs.QPInitAttr{
		SendCQ: n.cq, RecvCQ: n.cq,
		Cap: verbs.QPCap{MaxSendWR: 64, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	n.qp = n.id.QP()
	return err
}

// join connects A to B.
func (s *stage) join(ctx context.Context) error {
	return inOrder(
		func() error { return s.a.dial(ctx, s.b) }, func() error { return s.b.accept(ctx) },
		s.a.hears(ctx, rdmacm.EventEstablished), s.b.hears(ctx, rdmacm.EventEstablished))
}

// connect is the scene in which the connection is set up.
func (s *stage) connect(ctx context.Context) error {
	s.title("Connect: three messages")
	s.text(0, "A queue pair (QP) is one end of a connection. B listens, A connects. The connection managers (CM) of both adapters "+
		"exchange messages between their QP1s: each sends the number of its QP and the first packet sequence number (PSN) that "+
		"it expects, and moves its QP from RESET to RTS.")
	err := s.join(ctx)
	moves := s.draw()
	if err != nil {
		return err
	}
	a, err := s.a.qp.Query()
	if err != nil {
		return err
	}
	b, err := s.b.qp.Query()
	if err != nil {
		return err
	}
	s.mtu = a.PathMTU
	s.attributes(&a, &b)
	s.line("")
	s.told()
	s.check(a.DestQPN == s.b.qp.QPN() && b.DestQPN == s.a.qp.QPN() && a.SQPSN == b.RQPSN && b.SQPSN == a.RQPSN,
		"each side sends to the QP of the other, from the agreed PSN on")
	s.check(a.State == ib.RTS && b.State == ib.RTS && moves == 6, "both are in RTS, after %d moves", moves)
	return nil
}

// attributes shows the attributes that each move has set on the queue pairs.
func (s *stage) attributes(a, b *verbs.QPAttr) {
	s.step("RESET → INIT", "set the port, and the access rights of the peer")
	s.attrs(a, b, func(q *verbs.QPAttr) string {
		rights := strings.ReplaceAll(q.AccessFlags.String(), "|", " ") // where lines break
		return fmt.Sprintf("PKEY_INDEX %d  PORT %d  ACCESS_FLAGS %s", q.PKeyIndex, q.Port, rights)
	})
	s.step("INIT → RTR", "ready to receive; set the peer and its first PSN")
	s.attrs(a, b, func(q *verbs.QPAttr) string {
		return fmt.Sprintf("PATH_MTU %d  MAX_DEST_RD_ATOMIC %d  MIN_RNR_TIMER %d (%v)",
			q.PathMTU.Bytes(), q.MaxDestRDAtomic, q.MinRNRTimer, ib.RNRTimer(q.MinRNRTimer))
	})
	s.attrs(a, b, func(q *verbs.QPAttr) string {
		return fmt.Sprintf("AV %v  DEST_QPN %v  RQ_PSN %v", q.AV.DGID.Addr(), q.DestQPN, q.RQPSN)
	})
	s.step("RTR → RTS", "ready to send; set the first PSN and the retries")
	s.attrs(a, b, func(q *verbs.QPAttr) string {
		return fmt.Sprintf("TIMEOUT %d (%v)  RETRY_CNT %d  RNR_RETRY %d%s  MAX_QP_RD_ATOMIC %d", q.Timeout,
			ib.AckTimeout(q.Timeout).Round(1e6), q.RetryCnt, q.RNRRetry, forEver(q.RNRRetry), q.MaxRDAtomic)
	})
	s.attrs(a, b, func(q *verbs.QPAttr) string { return fmt.Sprintf("SQ_PSN %v", q.SQPSN) })
}

func forEver(rnrRetry uint8) string {
	if rnrRetry == retries {
		return " (for ever)"
	}
	return ""
}

func (s *stage) step(move, why string) {
	s.line("%s  %s", s.paint(bold, fmt.Sprintf("%-12s", move)), why)
}

// attrs shows attributes of both queue pairs, once if they are the same.
func (s *stage) attrs(a, b *verbs.QPAttr, show func(q *verbs.QPAttr) string) {
	if show(a) == show(b) {
		s.text(8, "  both  %s", s.paint(dim, show(a)))
		return
	}
	s.text(8, "  A     %s", s.paint(dim, show(a)))
	s.text(8, "  B     %s", s.paint(dim, show(b)))
}

// hangUp makes A end the connection, and B answer.
func (s *stage) hangUp(ctx context.Context) error {
	return inOrder(
		s.a.id.Disconnect, s.b.hears(ctx, rdmacm.EventDisconnected),
		s.b.id.Disconnect, s.a.hears(ctx, rdmacm.EventDisconnected))
}

// disconnect is the scene in which the connection is torn down.
func (s *stage) disconnect(ctx context.Context) error {
	s.title("Disconnect: two messages")
	s.text(0, "A's program disconnects; B's program gets an event and disconnects too. The CMs exchange DREQ and DREP, both queue pairs go "+
		"to ERR, and both connections stay in TIMEWAIT until none of their packets can be in flight.")
	s.a.told, s.b.told = nil, nil
	s.aTrace.record(true)
	s.bTrace.record(true)
	err := s.hangUp(ctx)
	parted := time.Now()
	s.ladder(s.a, s.b, s.steps())
	if err == nil {
		err = inOrder(s.a.hears(ctx, rdmacm.EventTimewaitExit), s.b.hears(ctx, rdmacm.EventTimewaitExit))
	}
	if err == nil {
		s.rung(dim, center("TIMEWAIT"), "for "+time.Since(parted).Round(time.Millisecond).String())
	}
	s.end()
	if err != nil {
		return err
	}
	s.told()
	s.check(s.a.qp.State() == ib.ERR && s.b.qp.State() == ib.ERR, "both queue pairs are in ERR")
	return s.leave()
}

// leave destroys the objects of the connection.
func (s *stage) leave() error {
	return inOrder(s.a.id.DestroyQP, s.a.id.Destroy, s.b.id.DestroyQP, s.b.id.Destroy)
}

// steps returns the records of both sides since the last call.
func (s *stage) steps() []step { return interleave(s.aTrace.take(), s.bTrace.take()) }

// draw draws the records of both sides since the last call as a ladder, and returns the number of
// moves of queue pairs among them.
func (s *stage) draw() (moves int) {
	steps := s.steps()
	for i := range steps {
		if steps[i].Kind == verbs.TraceState {
			moves++
		}
	}
	s.ladder(s.a, s.b, steps)
	s.end()
	return moves
}
