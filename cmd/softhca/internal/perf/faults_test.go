package perf

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
)

// TestM4_M5_M6_LostAndRepeated: rules that name ATOMIC WRITE, FLUSH and requests of XRC cause
// retransmissions.
func TestM4_M5_M6_LostAndRepeated(t *testing.T) {
	for _, c := range []struct {
		typ            ib.QPType
		op             Op
		client, server string
	}{
		{ib.RC, AtomicWrite, "drop op=ATOMIC_WRITE nth=3", ""},
		{ib.RC, Flush, "drop op=FLUSH nth=3", ""},
		{ib.RC, Flush, "", "drop op=RC_FLUSH nth=3 dir=in"},
		{ib.XRCIni, Flush, "drop op=XRC_FLUSH nth=3", ""},
		{ib.XRCIni, AtomicWrite, "corrupt op=XRC_ATOMIC_WRITE nth=3", ""},
		{ib.XRCIni, Send, "drop op=XRC_SEND nth=3", ""},
		{ib.XRCIni, Send, "drop op=SEND nth=3", ""},
		{ib.XRCIni, Send, "drop op=XRC nth=3 dir=out", ""},
		{ib.XRCIni, Write, "drop op=XRC_RDMA_WRITE nth=3", ""},
		{ib.XRCIni, Send, "", "rnr op=XRC_SEND nth=3"},
		{ib.XRCIni, WriteImm, "", "rnr nth=3"},
		{ib.RC, AtomicWrite, "", "nak SEQUENCE op=ATOMIC_WRITE nth=3"},
		{ib.RC, Flush, "", "nak SEQUENCE op=FLUSH nth=3"},
	} {
		r := newFaultyRig(t, c.client, c.server)
		p := Plan{Type: c.typ, Op: c.op, Depth: 4, PostList: 1, Duration: 30 * time.Millisecond, Timeout: 15}
		if p.Op == Send || p.Op == Flush || p.Op == Write || p.Op == WriteImm {
			p.Size = 8
		}
		s, client, server := r.long(t, p, func(s *Summary) bool { return s.Messages > 10 })
		if client != nil || server != nil {
			t.Errorf("%+v: client: %v; server: %v", c, client, server)
			continue
		}
		stats := s.Client.Faults
		if c.server != "" {
			stats = s.Server.Faults
		}
		if len(stats) != 1 || stats[0].Applied != 1 || s.Retransmits == 0 {
			t.Errorf("%+v: the rule: %+v; %v", c, stats, s)
		}
	}
}

// TestM2_M4_M5_M6_RefusedOnDemand: rules refuse these operations, and a bind.
func TestM2_M4_M5_M6_RefusedOnDemand(t *testing.T) {
	for _, c := range []struct {
		plan   Plan
		server string
		status string
	}{
		{Plan{Op: AtomicWrite}, "nak REMOTE_ACCESS op=ATOMIC_WRITE nth=3", "REM_ACCESS_ERR"},
		{Plan{Op: Flush}, "nak REMOTE_OPERATIONAL op=FLUSH nth=3", "REM_OP_ERR"},
		{Plan{Op: Send, Type: ib.XRCIni}, "nak INVALID_REQUEST op=XRC_SEND nth=3", "REM_INV_REQ_ERR"},
		{Plan{Op: Write, Window: true}, "nak REMOTE_ACCESS op=RDMA_WRITE nth=3", "REM_ACCESS_ERR"},
	} {
		c.plan.Duration, c.plan.Timeout = 5*time.Second, 18
		_, client, _ := newFaultyRig(t, "", c.server).measure(t.Context(), c.plan, c.plan.Op)
		if f := (*Failure)(nil); !errors.As(client, &f) || f.Status != c.status {
			t.Errorf("%+v: %v", c, client)
		}
	}
	// If a server cannot bind a window, it tells the client why; a client that measures binds sees the
	// error itself.
	_, client, server := newFaultyRig(t, "", "bindfail nth=2").measure(t.Context(), Plan{Op: Write, Window: true, QPs: 2, Duration: time.Second}, Write)
	for who, err := range map[string]error{"client": client, "server": server} {
		if err == nil || !strings.Contains(err.Error(), "bind a memory window on queue pair 1") || !strings.Contains(err.Error(), "MW_BIND_ERR") {
			t.Errorf("the %s of a refused window says %v", who, err)
		}
	}
	for _, rule := range []string{"bindfail op=BIND_MW nth=3", "bindfail op=LOCAL_INV nth=3"} {
		_, client, _ = newFaultyRig(t, rule, "").measure(t.Context(), Plan{Op: Bind, Duration: 5 * time.Second}, Bind)
		if f := (*Failure)(nil); !errors.As(client, &f) || f.Status != "MW_BIND_ERR" || f.Client.States != "ERR" || !strings.Contains(f.Error(), "could not be bound or invalidated") {
			t.Errorf("%s: %v", rule, client)
		}
	}
}
