package qp_test

import (
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// inOrder configures an adapter that always goes back N, without selective
// repeat.
func inOrder() hca.Config { return hca.Config{Settings: qp.Settings{InOrderOnly: true}} }

// TestE8_RetryCount shows that retry_cnt n means n+1 transmissions, also with
// 7, and then RETRY_EXC_ERR for the oldest request, with the rest flushed in
// order.
func TestE8_RetryCount(t *testing.T) {
	for n := range uint8(8) {
		s := rig.NewSolo(t, rig.SoloConfig{HCA: inOrder(), Attr: func(a *ib.QPAttr) { a.RetryCnt = n }})
		s.Recv(10, 9, 9)
		sent := len(s.Send(s.WR(ib.WRSend, 1, 0, 8), s.WR(ib.WRSend, 2, 0, 8)))
		sent += len(s.Pass(time.Hour))
		if sent != 2*(int(n)+1) {
			t.Errorf("retry_cnt %d: %d packets, want each of 2 sent %d times", n, sent, n+1)
		}
		s.WantWCs("retries exceeded", rig.WC(1, ib.WCRetryExcErr), rig.WC(2, ib.WCWRFlushErr), rig.WC(10, ib.WCWRFlushErr), rig.WC(11, ib.WCWRFlushErr))
		s.WantEvents("retries exceeded: the completion reports it")
		s.WantState("retries exceeded", ib.ERR)
		if c := s.Counters(); c.RetryExceededErr != 1 {
			t.Errorf("RETRY_EXC_ERR counts as %d", c.RetryExceededErr)
		}
	}
}

// TestE8_L1_ProbesAreNoRetries shows that probes neither hasten nor delay
// RETRY_EXC_ERR: it comes after the configured number of timeouts.
func TestE8_L1_ProbesAreNoRetries(t *testing.T) {
	for n := range uint8(8) {
		s := rig.NewSolo(t, rig.SoloConfig{Attr: func(a *ib.QPAttr) { a.RetryCnt = n }})
		s.Send(s.WR(ib.WRSend, 1, 0, 8), s.WR(ib.WRSend, 2, 0, 8))
		s.Pass(rig.Timeout*time.Duration(n+1) - rig.Tick)
		s.WantState("before the last timeout", ib.RTS)
		s.Pass(2 * rig.Tick)
		s.WantWCs("after the last timeout", rig.WC(1, ib.WCRetryExcErr), rig.WC(2, ib.WCWRFlushErr))
		if c := s.Counters(); c.LocalAckTimeoutErr != uint64(n)+1 || c.CompleterRetryErr != uint64(n) || c.Probes == 0 {
			t.Errorf("retry_cnt %d: %d timeouts, %d retries, %d probes", n, c.LocalAckTimeoutErr, c.CompleterRetryErr, c.Probes)
		}
	}
}

// TestRetriesSpeedup shows that, after the first timeout, the others come sooner if the settings say so.
func TestRetriesSpeedup(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{
		HCA: hca.Config{Settings: qp.Settings{InOrderOnly: true, RetrySpeedup: 50}}, Attr: func(a *ib.QPAttr) { a.RetryCnt, a.Timeout = 3, 18 },
	})
	first := ib.AckTimeout(18)
	s.Send(s.WR(ib.WRSend, 1, 0, 8))
	s.Pass(first + 3*first/50 - rig.Tick)
	s.WantState("before the last timeout", ib.RTS)
	s.Pass(2 * rig.Tick)
	s.WantWCs("after the last timeout", rig.WC(1, ib.WCRetryExcErr))
}

// TestProbeAfter shows that a probe waits for the configured time, although the round trips
// are short.
func TestProbeAfter(t *testing.T) {
	const after = rig.Timeout / 2
	s := rig.NewSolo(t, rig.SoloConfig{HCA: hca.Config{Settings: qp.Settings{ProbeAfter: after}}})
	s.Send(s.WR(ib.WRSend, 1, 0, 8))
	s.Inject(s.AckTo(0x200, roce.ACKUnlimited))
	s.Send(s.WR(ib.WRSend, 2, 0, 8))
	s.WantPackets("it is not time yet", s.Pass(after-rig.Tick))
	s.Pass(2 * rig.Tick)
	if c := s.Counters(); c.Probes != 1 || c.LocalAckTimeoutErr != 0 {
		t.Errorf("after %v: %d probes, %d timeouts", after, c.Probes, c.LocalAckTimeoutErr)
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

// TestE12_E25_RNR shows the requester's side: it waits the full time, resends
// from the NAK's PSN, counts rnr_retry, for which 7 means forever, and leaves
// the retry count alone.
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
		s.WantEvents("RNR retries exceeded: the completion reports it")
	}
}
