package trace

import (
	"testing"

	"github.com/softhca/softhca/ib"
)

func TestRecordStrings(t *testing.T) {
	for _, c := range []struct {
		r    Record
		want string
	}{
		{Record{Kind: PacketOut, QPN: 0x11, PSN: ib.NewPSN(0xabc), Len: 20, Header: [HeaderBytes]byte{0x04}},
			"qp 0x000011 -> opcode 0x04 psn 000abc len 20"},
		{Record{Kind: PacketIn, QPN: 0x11, PSN: ib.NewPSN(0xabd), Len: 16, Header: [HeaderBytes]byte{0x11}},
			"qp 0x000011 <- opcode 0x11 psn 000abd len 16"},
		{Record{Kind: State, QPN: 0x11, From: ib.RTS, To: ib.ERR, Cause: "retry_cnt used up"},
			"qp 0x000011 RTS -> ERR (retry_cnt used up)"},
		{Record{Kind: Completion, QPN: 0x11, WRID: 7, Status: ib.WCWRFlushErr}, "qp 0x000011 completion wr_id 7 WR_FLUSH_ERR"},
		{Record{Kind: Event, QPN: 0x11, Event: ib.EventCommEst}, "qp 0x000011 event COMM_EST"},
		{Record{Kind: Retry, QPN: 0x11, PSN: ib.NewPSN(5), Cause: "timeout"}, "qp 0x000011 sends again from psn 000005 (timeout)"},
		{Record{Kind: Drop, QPN: 0x11, PSN: ib.NewPSN(6), Cause: "rnr_wait"}, "qp 0x000011 drops psn 000006 (rnr_wait)"},
		{Record{Kind: Drop + 1, QPN: 0x11}, "qp 0x000011 record kind 7"},
	} {
		if got := c.r.String(); got != c.want {
			t.Errorf("record of kind %d prints as\n%q, want\n%q", c.r.Kind, got, c.want)
		}
	}
}
