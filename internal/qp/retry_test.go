package qp_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/roce"
)

// TestE4_Retransmission shows that sending again starts at the PSN that is
// missing, with the opcode, the address and the bytes of that place.
func TestE4_Retransmission(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{})
	rig.Fill(s.Buf, 4)
	whole := s.Send(s.WR(ib.WRRDMAWrite, 1, 0, 900), s.WR(ib.WRRDMARead, 2, 8192, 1000), s.WR(ib.WRSend, 3, 100, 10))
	s.WantPackets("three work requests", whole,
		rig.Req(roce.RCRDMAWriteFirst, 0x200), rig.Req(roce.RCRDMAWriteMiddle, 0x201), rig.Req(roce.RCRDMAWriteMiddle, 0x202), rig.Req(roce.RCRDMAWriteLast, 0x203),
		rig.Req(roce.RCRDMAReadRequest, 0x204), rig.Req(roce.RCSendOnly, 0x208))
	got := s.Inject(s.AckTo(0x202, roce.NAKSequence))
	s.WantPackets("NAK for the third packet of the WRITE", got,
		rig.Req(roce.RCRDMAWriteMiddle, 0x202), rig.Req(roce.RCRDMAWriteLast, 0x203), rig.Req(roce.RCRDMAReadRequest, 0x204), rig.Req(roce.RCSendOnly, 0x208))
	if len(got) == 4 && (!bytes.Equal(got[0].Payload, s.Buf[512:768]) || !bytes.Equal(got[1].Payload, s.Buf[768:900])) {
		t.Error("the packets sent again hold other bytes")
	}
	s.Inject(s.AckTo(0x203, roce.ACKUnlimited), s.Answer(roce.RCRDMAReadResponseFirst, 0x204, roce.ACKUnlimited, s.Buf[:256]))
	s.WantWCs("the WRITE", rig.WC(1, ib.WCSuccess))
	got = s.Pass(rig.Timeout + rig.Tick)
	s.WantPackets("the timer: the READ goes on where its data ended", got, rig.Req(roce.RCRDMAReadRequest, 0x205), rig.Req(roce.RCSendOnly, 0x208))
	if len(got) == 2 && (got[0].RETH.VA != 0x1100 || got[0].RETH.Length != 744) {
		t.Errorf("the READ is resumed at %#x for %d bytes, want 0x1100 and 744", got[0].RETH.VA, got[0].RETH.Length)
	}
	if c := s.Counters(); c.RetransPkts != 6 || c.CompleterRetryErr != 2 || c.LocalAckTimeoutErr != 1 || c.RcvdSeqErr != 1 {
		t.Errorf("6 packets in 2 retries, 1 by timer and 1 by NAK, count as %d, %d, %d, %d",
			c.RetransPkts, c.CompleterRetryErr, c.LocalAckTimeoutErr, c.RcvdSeqErr)
	}
}

// TestE5_RetryTimer shows when the timer runs: from the first packet that is
// not acknowledged, anew with each progress, not when nothing is outstanding
// and not with a timeout of 0.
func TestE5_RetryTimer(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{})
	s.Send(s.WR(ib.WRSend, 1, 0, 300))
	s.WantPackets("just before it fires", s.Pass(rig.Timeout-rig.Tick))
	s.Inject(s.AckTo(0x200, roce.ACKUnlimited))
	s.WantPackets("progress starts it anew", s.Pass(rig.Timeout-rig.Tick))
	s.WantPackets("it fires", s.Pass(rig.Tick), rig.Req(roce.RCSendLast, 0x201))
	s.Inject(s.AckTo(0x201, roce.ACKUnlimited))
	s.WantPackets("nothing is outstanding", s.Pass(time.Hour))
	s = rig.NewSolo(t, rig.SoloConfig{Attr: func(a *ib.QPAttr) { a.Timeout = 0 }})
	s.Send(s.WR(ib.WRSend, 1, 0, 300))
	s.WantPackets("timeout 0 is never", s.Pass(time.Hour*24*365))
}

// TestE8_RetryCount shows that retry_cnt n means n+1 transmissions, 7 is no
// more than that, and what follows: RETRY_EXC_ERR for the oldest, the rest
// flushed in order.
func TestE8_RetryCount(t *testing.T) {
	for n := range uint8(8) {
		s := rig.NewSolo(t, rig.SoloConfig{Attr: func(a *ib.QPAttr) { a.RetryCnt = n }})
		s.Recv(10, 9, 9)
		sent := len(s.Send(s.WR(ib.WRSend, 1, 0, 8), s.WR(ib.WRSend, 2, 0, 8)))
		sent += len(s.Pass(time.Hour))
		if sent != 2*(int(n)+1) {
			t.Errorf("retry_cnt %d: %d packets, want each of 2 sent %d times", n, sent, n+1)
		}
		s.WantWCs("retries exceeded", rig.WC(1, ib.WCRetryExcErr), rig.WC(2, ib.WCWRFlushErr), rig.WC(10, ib.WCWRFlushErr), rig.WC(11, ib.WCWRFlushErr))
		s.WantEvents("retries exceeded", ib.EventQPFatal)
		s.WantState("retries exceeded", ib.ERR)
		if c := s.Counters(); c.RetryExceededErr != 1 {
			t.Errorf("RETRY_EXC_ERR counts as %d", c.RetryExceededErr)
		}
	}
}

// TestE8_ProgressReloadsTheCount shows that only retries in a row count.
func TestE8_ProgressReloadsTheCount(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{Attr: func(a *ib.QPAttr) { a.RetryCnt = 1 }})
	s.Send(s.WR(ib.WRSend, 1, 0, 5*256))
	for i := range uint32(4) {
		s.Pass(rig.Timeout + rig.Tick)
		s.WantState("one retry is allowed each time", ib.RTS)
		s.Inject(s.AckTo(0x200+i, roce.ACKUnlimited))
	}
	s.Pass(time.Hour)
	s.WantState("without progress", ib.ERR)
}

// TestE8_NAKSequence shows that all before the NAK is acknowledged, that the
// rest is sent at once, and that a second NAK for the same starts nothing.
func TestE8_NAKSequence(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{})
	s.Send(s.WR(ib.WRSend, 1, 0, 8), s.WR(ib.WRRDMAWrite, 2, 0, 8), s.WR(ib.WRSend, 3, 0, 8))
	s.WantPackets("a NAK for the third", s.Inject(s.AckTo(0x202, roce.NAKSequence)), rig.Req(roce.RCSendOnly, 0x202))
	s.WantWCs("the two before", rig.WC(1, ib.WCSuccess), rig.WC(2, ib.WCSuccess))
	s.WantPackets("the same NAK again", s.Inject(s.AckTo(0x202, roce.NAKSequence)))
	s.Inject(s.AckTo(0x202, roce.ACKUnlimited))
	s.WantWCs("the third", rig.WC(3, ib.WCSuccess))
}

// TestE12_E25_RNR shows the requester's side: the time is waited in full, the
// PSN of the NAK is sent again, rnr_retry counts, 7 is for ever, and the
// retry count is left alone.
func TestE12_E25_RNR(t *testing.T) {
	for n := range uint8(8) {
		s := rig.NewSolo(t, rig.SoloConfig{Attr: func(a *ib.QPAttr) { a.RNRRetry, a.RetryCnt, a.Timeout = n, 0, 1 }})
		s.Send(s.WR(ib.WRSend, 1, 0, 300), s.WR(ib.WRSend, 2, 0, 8))
		naks := uint32(0)
		for code := uint8(0); code < 20 && s.QP.State() == ib.RTS; code++ {
			s.WantPackets("the NAK", s.Inject(s.AckTo(0x200, roce.RNRNAK(code))))
			naks++
			if s.QP.State() != ib.RTS {
				break
			}
			wait := ib.RNRTimer(code)
			s.WantPackets("just before the time is over", s.Pass(wait-rig.Tick/10))
			s.WantPackets("the time is over", s.Pass(rig.Tick/10), rig.Req(roce.RCSendFirst, 0x200), rig.Req(roce.RCSendLast, 0x201), rig.Req(roce.RCSendOnly, 0x202))
		}
		if n == ib.RNRInfiniteRetry {
			if naks != 20 || s.QP.State() != ib.RTS {
				t.Errorf("rnr_retry 7 ends in %v after %d NAKs", s.QP.State(), naks)
			}
			continue
		}
		if naks != uint32(n)+1 {
			t.Errorf("rnr_retry %d: %d transmissions, want %d", n, naks, n+1)
		}
		s.WantWCs("RNR retries exceeded", rig.WC(1, ib.WCRNRRetryExcErr), rig.WC(2, ib.WCWRFlushErr))
		s.WantEvents("RNR retries exceeded", ib.EventQPFatal)
	}
}

// TestE25_NAKWhileWaiting shows that a sequence NAK after an RNR NAK, as Linux
// sends it, neither ends the wait nor costs a retry.
func TestE25_NAKWhileWaiting(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{Attr: func(a *ib.QPAttr) { a.RetryCnt = 0 }})
	s.Send(s.WR(ib.WRSend, 1, 0, 300))
	s.WantPackets("both NAKs", s.Inject(s.AckTo(0x200, roce.RNRNAK(20)), s.AckTo(0x200, roce.NAKSequence)))
	s.WantPackets("the wait goes on", s.Pass(ib.RNRTimer(20)-rig.Tick))
	s.WantPackets("the wait is over", s.Pass(rig.Tick), rig.Req(roce.RCSendFirst, 0x200), rig.Req(roce.RCSendLast, 0x201))
	s.Inject(s.AckTo(0x201, roce.ACKUnlimited))
	s.WantWCs("in the end", rig.WC(1, ib.WCSuccess))
}
