package qp_test

import (
	"slices"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/qp"
)

// changed collects the indexes of the send requests that Changed reports.
type changed []uint32

// solo returns a solo rig whose adapter compares payload.
func (c *changed) solo(t *testing.T) *rig.Solo {
	var s *rig.Solo
	s = rig.NewSolo(t, rig.SoloConfig{Attr: func(a *ib.QPAttr) { a.RetryCnt = 7 }, HCA: hca.Config{Settings: qp.Settings{InOrderOnly: true}, Changed: func(n ib.QPN, index uint32) {
		if n != s.QP.Num() {
			t.Errorf("queue pair %v, want %v", n, s.QP.Num())
		}
		*c = append(*c, index)
	}}})
	return s
}

// TestK1_RepeatedPayloadIsCompared changes the memory of a request of three packets between two transmissions. The
// change is reported for the request that has it, once for each packet, also if the program restores the memory before the
// request completes.
func TestK1_RepeatedPayloadIsCompared(t *testing.T) {
	var c changed
	s := c.solo(t)
	s.Send(s.WR(ib.WRSend, 1, 0, 8), s.WR(ib.WRSend, 2, 1024, 3*256))
	s.Pass(rig.Timeout + rig.Tick)
	if len(c) != 0 {
		t.Fatalf("nothing has changed, and %d are reported", c)
	}
	s.Buf[1024+256]++
	s.Pass(rig.Timeout + rig.Tick)
	if !slices.Equal(c, changed{1}) {
		t.Errorf("after the change, %d are reported, want [1]", c)
	}
	s.Buf[1024+256]--
	s.Pass(rig.Timeout + rig.Tick)
	if !slices.Equal(c, changed{1, 1}) {
		t.Errorf("after it is undone, %d are reported, want [1 1]", c)
	}
	s.Pass(rig.Timeout + rig.Tick)
	if len(c) != 2 {
		t.Errorf("nothing has changed any more, and %d are reported", c)
	}
}

// TestK1_OtherPayloadIsNotCompared sends another request at a PSN whose payload is known, after RESET: there is nothing to
// report.
func TestK1_OtherPayloadIsNotCompared(t *testing.T) {
	var c changed
	s := c.solo(t)
	first := s.Send(s.WR(ib.WRSend, 1, 0, 8))
	s.Modify(ib.RESET)
	s.Walk(ib.RTS)
	s.Buf[0]++
	if second := s.Send(s.WR(ib.WRSend, 2, 0, 8)); len(first) != 1 || len(second) != 1 || first[0].BTH.PSN != second[0].BTH.PSN {
		t.Fatal("the requests do not have the same PSN")
	}
	if len(c) != 0 {
		t.Errorf("%d are reported", c)
	}
}

// TestK1_InlineDataIsNotCompared repeats a request whose data was copied at the post.
func TestK1_InlineDataIsNotCompared(t *testing.T) {
	var c changed
	s := c.solo(t)
	wr := s.WR(ib.WRSend, 1, 0, 8)
	wr.Flags, wr.InlineData, wr.SGList = wr.Flags|ib.SendInline, []byte("inline"), nil
	s.Send(wr)
	clear(wr.InlineData)
	s.Pass(time.Hour)
	if len(c) != 0 {
		t.Errorf("%d are reported", c)
	}
}
