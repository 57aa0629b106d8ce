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
		{Record{Kind: Fault, QPN: 0x11, Cause: "qp to=ERR"}, "qp 0x000011 fault: qp to=ERR"},
		{Record{Kind: Fault, QPN: 0x11, PSN: ib.NewPSN(7), Len: 16, Cause: "drop", Header: [HeaderBytes]byte{0x11}},
			"to qp 0x000011 fault: drop: opcode 0x11 psn 000007 len 16"},
		{Record{Kind: Fault + 1, QPN: 0x11}, "qp 0x000011 record kind 8"},
	} {
		if got := c.r.String(); got != c.want {
			t.Errorf("record of kind %d prints as\n%q, want\n%q", c.r.Kind, got, c.want)
		}
	}
}
