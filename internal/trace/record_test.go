package trace

import (
	"net/netip"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

func TestRecordStrings(t *testing.T) {
	for _, c := range []struct {
		r    Record
		want string
	}{
		{Record{Kind: PacketOut, QPN: 0x11, PSN: ib.NewPSN(0xabc), Len: 20, Header: [HeaderBytes]byte{0x04}},
			"qp 0x000011 -> RC_SEND_ONLY psn 0x000abc len 20"},
		{Record{Kind: PacketIn, QPN: 0x11, PSN: ib.NewPSN(0xabd), Len: 20, Header: [HeaderBytes]byte{0: 0x11, 12: 0x1f, 15: 7}},
			"qp 0x000011 <- RC_ACKNOWLEDGE psn 0x000abd len 20 syndrome ACK(31) msn 7"},
		{Record{Kind: PacketOut, QPN: 0x11, PSN: ib.NewPSN(0xabe), Len: 20, Header: [HeaderBytes]byte{0: 0x11, 12: 0x60, 15: 7}},
			"qp 0x000011 -> RC_ACKNOWLEDGE psn 0x000abe len 20 syndrome NAK_SEQUENCE msn 7"},
		{Record{Kind: PacketIn, QPN: 0x11, PSN: ib.NewPSN(0xabf), Len: 28, Header: [HeaderBytes]byte{0: 0x12, 12: 0x1f}},
			"qp 0x000011 <- RC_ATOMIC_ACKNOWLEDGE psn 0x000abf len 28 syndrome ACK(31) msn 0"},
		{Record{Kind: State, QPN: 0x11, From: ib.RTS, To: ib.ERR, Cause: "retry_cnt used up"},
			"qp 0x000011 RTS -> ERR (retry_cnt used up)"},
		{Record{Kind: Completion, QPN: 0x11, WRID: 7, Status: ib.WCWRFlushErr}, "qp 0x000011 completion wr_id 7 WR_FLUSH_ERR"},
		{Record{Kind: Event, QPN: 0x11, Event: ib.EventCommEst}, "qp 0x000011 event COMM_EST"},
		{Record{Kind: Retry, QPN: 0x11, PSN: ib.NewPSN(5), Cause: "timeout"}, "qp 0x000011 sends again from psn 0x000005 (timeout)"},
		{Record{Kind: Drop, QPN: 0x11, PSN: ib.NewPSN(6), Cause: "rnr_wait"}, "qp 0x000011 drops psn 0x000006 (rnr_wait)"},
		{Record{Kind: Fault, QPN: 0x11, Cause: "qp to=ERR"}, "qp 0x000011 fault: qp to=ERR"},
		{Record{Kind: Fault, QPN: 0x11, PSN: ib.NewPSN(7), Len: 20, Cause: "drop", Header: [HeaderBytes]byte{0: 0x11, 12: 0x2c}},
			"to qp 0x000011 fault: drop: RC_ACKNOWLEDGE psn 0x000007 len 20 syndrome RNR_NAK(12) msn 0"},
		{Record{Kind: Repair, QPN: 0x11, PSN: ib.NewPSN(8), Cause: "probe"}, "qp 0x000011 sends again from psn 0x000008 (probe)"},
		{Record{Kind: Event, EEC: true, QPN: 0x12, Event: ib.EventEECFatal}, "eec 0x000012 event EEC_FATAL"},
		{Record{Kind: Challenge, QPN: 0x11, Cause: "challenge: NAK"}, "qp 0x000011 challenge: NAK"},
		{Record{Kind: Connection, QPN: 0x11, Change: RejectedBy, Service: mad.IPServiceID(mad.PSTCP, 7471), Remote: netip.MustParseAddr("10.0.0.2"), Cause: "consumer reject"},
			"qp 0x000011 service tcp:7471 with 10.0.0.2: rejected by the peer (consumer reject)"},
		{Record{Kind: Connection, QPN: 0x11, Change: Established, Remote: netip.MustParseAddr("10.0.0.2")},
			"qp 0x000011 service 0x0000000000000000 with 10.0.0.2: established"},
		{Record{Kind: Refusal, QPN: 0x11, PSN: ib.NewPSN(5), Cause: "region 0x1: memory not mapped"}, "qp 0x000011 refuses psn 0x000005: region 0x1: memory not mapped"},
		{Record{Kind: MemoryError, QPN: 0x11, Cause: "no region has the key 0x2"}, "qp 0x000011 no region has the key 0x2"},
		{Record{Kind: NumKinds, QPN: 0x11}, "qp 0x000011 record kind 13"},
	} {
		if got := c.r.String(); got != c.want {
			t.Errorf("record of kind %d prints as\n%q, want\n%q", c.r.Kind, got, c.want)
		}
	}
}

// packet returns the record of a packet to a queue pair.
func packet(kind Kind, to ib.QPN, payload []byte) Record {
	p := roce.Packet{BTH: roce.BTH{Opcode: roce.UDSendOnly, DestQP: to, PSN: ib.NewPSN(3)}, Payload: payload}
	b := make([]byte, roce.Size(p.BTH.Opcode, len(payload)))
	r := Record{Kind: kind, QPN: ib.QPNGSI, PSN: p.BTH.PSN, Len: p.Build(b)}
	copy(r.Header[:], b)
	return r
}

// TestC13_MessagesOfTheCM shows that a record tells which message a packet to
// QP1 is, and that no other packet is taken for one.
func TestC13_MessagesOfTheCM(t *testing.T) {
	var m mad.MAD
	m.PutHeader(mad.CMHeader(mad.AttrREQ, 9))
	(&mad.REQ{LocalCommID: 1, ServiceID: mad.IPServiceID(mad.PSTCP, 7471), LocalQPN: 0x11, StartingPSN: ib.NewPSN(0xabc)}).Put(&m)
	other := m
	other.PutHeader(mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassPerf, ClassVersion: 1, Method: mad.MethodGet, TID: 9})
	req := ": REQ comm 0x00000001 service tcp:7471 qp 0x000011 psn 0x000abc"
	dropped := packet(Fault, ib.QPNGSI, m[:])
	dropped.Cause = "drop op=REQ"
	for _, c := range []struct {
		r    Record
		want string
	}{
		{packet(PacketOut, ib.QPNGSI, m[:]), "qp 0x000001 -> UD_SEND_ONLY psn 0x000003 len 280" + req},
		{packet(PacketIn, ib.QPNGSI, m[:]), "qp 0x000001 <- UD_SEND_ONLY psn 0x000003 len 280" + req},
		{dropped, "to qp 0x000001 fault: drop op=REQ: UD_SEND_ONLY psn 0x000003 len 280" + req},
		{packet(PacketIn, ib.QPNGSI, other[:]), "qp 0x000001 <- UD_SEND_ONLY psn 0x000003 len 280: " +
			"MAD class PERF version 1.1 method Get attribute 0x0000 modifier 0x00000000 status ok tid 0x0000000000000009"},
		{packet(PacketIn, 2, m[:]), "qp 0x000001 <- UD_SEND_ONLY psn 0x000003 len 280"},
		{packet(PacketIn, ib.QPNGSI, m[:252]), "qp 0x000001 <- UD_SEND_ONLY psn 0x000003 len 276"},
		{packet(PacketIn, ib.QPNGSI, make([]byte, mad.Size)), "qp 0x000001 <- UD_SEND_ONLY psn 0x000003 len 280"},
	} {
		if got := c.r.String(); got != c.want {
			t.Errorf("the record prints as\n%s, want\n%s", got, c.want)
		}
	}
}
