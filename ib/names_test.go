package ib

import (
	"fmt"
	"testing"
)

func TestNames(t *testing.T) {
	for _, c := range []struct {
		value fmt.Stringer
		want  string
	}{
		{RESET, "RESET"}, {RTS, "RTS"}, {ERR, "ERR"}, {QPState(NumQPStates), "QPState(7)"}, {QPState(255), "QPState(255)"},
		{SMI, "SMI"}, {GSI, "GSI"}, {RC, "RC"}, {UC, "UC"}, {UD, "UD"}, {RD, "RD"}, {EEC, "EEC"}, {QPType(7), "QPType(7)"}, {XRCIni, "XRC_INI"}, {XRCTgt, "XRC_TGT"}, {QPType(11), "QPType(11)"},
		{MIGRATED, "MIGRATED"}, {ARMED, "ARMED"}, {MigState(3), "MigState(3)"},
		{PortActive, "ACTIVE"}, {PortActiveDefer, "ACTIVE_DEFER"}, {PortState(6), "PortState(6)"},
		{WRRDMAWrite, "RDMA_WRITE"}, {WRSendWithInv, "SEND_WITH_INV"}, {WRFlush, "FLUSH"}, {WRAtomicWrite, "ATOMIC_WRITE"},
		{WROpcode(11), "WROpcode(11)"}, {WROpcode(16), "WROpcode(16)"},
		{WCSend, "SEND"}, {WCAtomicWrite, "ATOMIC_WRITE"}, {WCRecv, "RECV"}, {WCRecvRDMAWithImm, "RECV_RDMA_WITH_IMM"},
		{WCOpcode(127), "WCOpcode(127)"}, {WCOpcode(130), "WCOpcode(130)"},
		{WCSuccess, "SUCCESS"}, {WCWRFlushErr, "WR_FLUSH_ERR"}, {WCRetryExcErr, "RETRY_EXC_ERR"},
		{WCRNRRetryExcErr, "RNR_RETRY_EXC_ERR"}, {WCGeneralErr, "GENERAL_ERR"}, {WCTMRndvIncomplete, "TM_RNDV_INCOMPLETE"},
		{WCStatus(24), "WCStatus(24)"},
		{EventCQErr, "CQ_ERR"}, {EventCommEst, "COMM_EST"}, {EventSRQLimitReached, "SRQ_LIMIT_REACHED"},
		{EventWQFatal, "WQ_FATAL"}, {EventType(20), "EventType(20)"},
		{EventEECFatal, "EEC_FATAL"}, {EventPathMigErr.OfEEC(), "EEC_PATH_MIG_ERR"}, {EventCQErr.OfEEC(), "EventType(128)"},
		{Access(0), "0"}, {AccessLocalWrite, "LOCAL_WRITE"}, {AccessRemote, "REMOTE_WRITE|REMOTE_READ|REMOTE_ATOMIC"},
		{AccessRelaxedOrdering | 1<<31, "RELAXED_ORDERING|0x80000000"}, {Access(1 << 31), "0x80000000"},
		{AttrMask(0), "0"}, {AttrState | AttrRQPSN, "STATE|RQ_PSN"}, {AttrRateLimit, "RATE_LIMIT"},
	} {
		if got := c.value.String(); got != c.want {
			t.Errorf("%T %v prints as %q, want %q", c.value, c.value, got, c.want)
		}
	}
}

// TestValues compares numbers that cross the C interface with those of
// rdma-core's headers.
func TestValues(t *testing.T) {
	for _, c := range []struct {
		what      string
		got, want int
	}{
		{"IBV_QPS_SQD", int(SQD), 4}, {"IBV_QPS_SQE", int(SQE), 5}, {"IBV_QPS_ERR", int(ERR), 6},
		{"IBV_QPT_RC", int(RC), 2}, {"IBV_QPT_UC", int(UC), 3}, {"IBV_QPT_UD", int(UD), 4},
		{"IBV_PORT_ACTIVE", int(PortActive), 4},
		{"IBV_WC_LOC_PROT_ERR", int(WCLocProtErr), 4}, {"IBV_WC_WR_FLUSH_ERR", int(WCWRFlushErr), 5},
		{"IBV_WC_REM_INV_REQ_ERR", int(WCRemInvReqErr), 9}, {"IBV_WC_REM_ACCESS_ERR", int(WCRemAccessErr), 10},
		{"IBV_WC_RETRY_EXC_ERR", int(WCRetryExcErr), 12}, {"IBV_WC_RNR_RETRY_EXC_ERR", int(WCRNRRetryExcErr), 13},
		{"IBV_WC_FATAL_ERR", int(WCFatalErr), 19}, {"IBV_WC_GENERAL_ERR", int(WCGeneralErr), 21},
		{"IBV_EVENT_QP_FATAL", int(EventQPFatal), 1}, {"IBV_EVENT_SQ_DRAINED", int(EventSQDrained), 5},
		{"IBV_EVENT_SRQ_ERR", int(EventSRQErr), 14}, {"IBV_EVENT_QP_LAST_WQE_REACHED", int(EventQPLastWQEReached), 16},
		{"IBV_EVENT_GID_CHANGE", int(EventGIDChange), 18},
		{"IBV_QP_AV", int(AttrAV), 128}, {"IBV_QP_DEST_QPN", int(AttrDestQPN), 1 << 20},
		{"IBV_SEND_INLINE", int(SendInline), 8},
	} {
		if c.got != c.want {
			t.Errorf("%s is %d, want %d", c.what, c.got, c.want)
		}
	}
}

// TestAttrAll checks that exactly the bits of AttrAll have names.
func TestAttrAll(t *testing.T) {
	var named AttrMask
	for _, a := range attrNames {
		if named&a.bit != 0 {
			t.Errorf("attribute bit %#x is named twice", uint32(a.bit))
		}
		named |= a.bit
	}
	if named != AttrAll {
		t.Errorf("named bits are %#x, AttrAll is %#x", uint32(named), uint32(AttrAll))
	}
	if got, want := len(AttrAll.Names()), len(attrNames); got != want {
		t.Errorf("AttrAll has %d names, want %d", got, want)
	}
}
