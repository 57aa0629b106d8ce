package demo

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// Attributes of both queue pairs.
const (
	readDepth  = 4  // READs and atomics on their way
	rnrTimer   = 12 // code
	ackTimeout = 17 // code; long, so that a busy host does not send again in vain
	retries    = 7
)

// initAttr, rtrAttr and rtsAttr are the three modify calls of n.
func (n *node) initAttr() (*verbs.QPAttr, ib.AttrMask) {
	return &verbs.QPAttr{State: ib.INIT, Port: 1, AccessFlags: rights & ib.AccessRemote},
		ib.AttrPKeyIndex | ib.AttrPort | ib.AttrAccessFlags
}

func (n *node) rtrAttr(peer *node, mtu ib.MTU) (*verbs.QPAttr, ib.AttrMask) {
	return &verbs.QPAttr{
			State: ib.RTR, PathMTU: mtu, DestQPN: peer.qp.QPN(), RQPSN: peer.psn,
			AV:              verbs.AHAttr{DGID: peer.hca.QueryGID(0), HopLimit: 64, Port: 1},
			MaxDestRDAtomic: readDepth, MinRNRTimer: rnrTimer,
		},
		ib.AttrAV | ib.AttrPathMTU | ib.AttrDestQPN | ib.AttrRQPSN | ib.AttrMaxDestRDAtomic | ib.AttrMinRNRTimer
}

func (n *node) rtsAttr() (*verbs.QPAttr, ib.AttrMask) {
	return &verbs.QPAttr{
			State: ib.RTS, SQPSN: n.psn, Timeout: ackTimeout, RetryCnt: retries, RNRRetry: retries, MaxRDAtomic: readDepth,
		},
		ib.AttrSQPSN | ib.AttrTimeout | ib.AttrRetryCnt | ib.AttrRNRRetry | ib.AttrMaxRDAtomic
}

// connect walks both queue pairs to RTS without a word.
func connect(a, b *node, mtu ib.MTU) error {
	for _, step := range [...]func(n, peer *node) error{
		func(n, _ *node) error { return n.modify(n.initAttr()) },
		func(n, peer *node) error { return n.modify(n.rtrAttr(peer, mtu)) },
		func(n, _ *node) error { return n.modify(n.rtsAttr()) },
	} {
		if err := step(a, b); err != nil {
			return err
		}
		if err := step(b, a); err != nil {
			return err
		}
	}
	return nil
}

// walk is the scene in which the queue pairs are connected.
func (s *stage) walk() error {
	p, a, b := s.printer, s.a, s.b
	p.title("Walk both queue pairs from RESET to RTS")
	p.line("A queue pair (QP) is one end of a connection. Programs tell each other its number and its first")
	p.line("packet sequence number (PSN) by other means, then modify it in three steps.")
	if err := connect(a, b, s.mtu); err != nil {
		return err
	}
	p.line("")
	s.step("RESET → INIT", "it gets a port, and rights for the peer")
	s.attrs("both", fmt.Sprintf("PKEY_INDEX 0  PORT 1  ACCESS_FLAGS %v", rights&ib.AccessRemote))
	s.step("INIT → RTR", "ready to receive: from whom, and from which PSN on")
	s.attrs("both", fmt.Sprintf("PATH_MTU %d  MAX_DEST_RD_ATOMIC %d  MIN_RNR_TIMER %d (%v)",
		s.mtu.Bytes(), readDepth, rnrTimer, ib.RNRTimer(rnrTimer)))
	s.attrs("A", fmt.Sprintf("AV %s  DEST_QPN %v  RQ_PSN %v", b.addr, b.qp.QPN(), b.psn))
	s.attrs("B", fmt.Sprintf("AV %s  DEST_QPN %v  RQ_PSN %v", a.addr, a.qp.QPN(), a.psn))
	s.step("RTR → RTS", "ready to send: from which PSN on, and how patiently")
	s.attrs("both", fmt.Sprintf("TIMEOUT %d (%v)  RETRY_CNT %d  RNR_RETRY %d (for ever)  MAX_QP_RD_ATOMIC %d",
		ackTimeout, ib.AckTimeout(ackTimeout).Round(1e6), retries, retries, readDepth))
	s.attrs("A", fmt.Sprintf("SQ_PSN %v", a.psn))
	s.attrs("B", fmt.Sprintf("SQ_PSN %v", b.psn))
	moves := append(s.aTrace.take(), s.bTrace.take()...)
	p.line("")
	p.check(a.qp.State() == ib.RTS && b.qp.State() == ib.RTS && len(moves) == 6,
		"both are in RTS, after %d moves", len(moves))
	return nil
}

func (s *stage) step(move, why string) {
	s.printer.line("%s  %s", s.printer.paint(bold, fmt.Sprintf("%-12s", move)), why)
}

func (s *stage) attrs(who, what string) {
	s.printer.line("  %-4s  %s", who, s.printer.paint(dim, what))
}
