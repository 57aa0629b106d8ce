package conformance_test

import (
	"context"
	"strings"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/interop/conformance"
)

// Each of these networks makes one of two adapters look as if it had a defect
// that no ICRC shows. The cases must notice. A rule for requests acts on each
// request, or on the first: a later one can be a retransmission, which the
// responder does not execute.
func TestDefectsAreNoticed(t *testing.T) {
	for _, c := range []struct {
		why   string
		rules string
		run   func(context.Context, conformance.Pair) []conformance.Result
		where string // in the name of a case that fails
	}{
		{"one byte of a message", "corrupt byte=40 reseal dir=out op=RDMA_WRITE_ONLY", operations("RC"), "RDMA_WRITE"},
		{"one byte of a READ response", "corrupt byte=100 reseal dir=out op=RDMA_READ_RESPONSE_MIDDLE", operations("RC"), "RDMA_READ"},
		{"one bit of an immediate", "corrupt byte=15 xor=1 reseal dir=out op=UC_SEND_ONLY_WITH_IMM nth=1", operations("UC"), "SEND_WITH_IMM"},
		{"the value that an atomic returns", "corrupt byte=23 xor=1 reseal dir=out op=ATOMIC_ACK nth=1", operations("together"), "atomics"},
		{"one byte of an ATOMIC WRITE", "corrupt byte=30 reseal dir=out op=ATOMIC_WRITE", extensions(conformance.AtomicWrite), "ATOMIC WRITE"},
		{"one byte of a WRITE through a window", "corrupt byte=60 reseal dir=out op=RDMA_WRITE_FIRST nth=1", extensions(conformance.Windows), "window"},
		{"another NAK for a window that has ended", "corrupt byte=12 xor=1 reseal dir=out op=NAK nth=1", extensions(conformance.Windows), "window"},
		{"a NAK for a FLUSH that is right", "nak syndrome=REMOTE_ACCESS op=RC_FLUSH", extensions(conformance.Flush), "FLUSH"},
		{"another NAK", "nak syndrome=REMOTE_OPERATIONAL op=RDMA_WRITE nth=1", exception("bad_rkey_write"), "bad_rkey_write"},
		{"a NAK for what is right", "nak syndrome=INVALID_REQUEST op=RDMA_WRITE nth=1", exception("zero_length_bad_rkey"), "zero_length"},
		{"a message that fits refused", "nak syndrome=REMOTE_ACCESS op=RC_SEND nth=1", exception("peer_rtr"), "peer_rtr"},
		{"an event too many", "event type=QP_REQ_ERR op=QueryQP nth=1", exception("peer_rtr"), "peer_rtr"},
		{"the PSN of a NAK", "corrupt byte=11 xor=1 reseal dir=out op=NAK nth=1", exception("write_noperm"), "write_noperm"},
	} {
		seen := false
		for _, r := range c.run(limited(t), pair(t, ib.MTU1024, c.rules)) {
			seen = seen || r.Verdict == conformance.Fail && strings.Contains(r.Name, c.where)
		}
		if !seen {
			t.Errorf("%s (%s): no case of %q fails", c.why, c.rules, c.where)
		}
	}
}

func operations(group string) func(context.Context, conformance.Pair) []conformance.Result {
	return func(ctx context.Context, p conformance.Pair) []conformance.Result {
		return conformance.Operations(ctx, p, group)
	}
}

func extensions(group string) func(context.Context, conformance.Pair) []conformance.Result {
	return func(ctx context.Context, p conformance.Pair) []conformance.Result {
		return conformance.Extensions(ctx, p, group)
	}
}

func exception(name string) func(context.Context, conformance.Pair) []conformance.Result {
	return func(ctx context.Context, p conformance.Pair) []conformance.Result {
		return conformance.Exceptions(ctx, p, name)
	}
}

// Nor does damage pass that the ICRC does not show in a stream and in a soak.
func TestWrongDataIsNoticed(t *testing.T) {
	const rules = "corrupt byte=60 reseal dir=out op=RDMA_WRITE_MIDDLE,SEND_MIDDLE nth=20"
	if r := conformance.Stream(limited(t), opened(t), conformance.Faulty{Name: "liar", Rules: rules}, 2); r.Verdict != conformance.Fail {
		t.Errorf("a stream with wrong data: %s %s", r.Verdict, r.Note)
	}
	if r := conformance.Soak(limited(t), opened(t), conformance.Soaking{Messages: 20000, Seed: 3, Rules: rules}); r.Verdict != conformance.Fail {
		t.Errorf("a soak with wrong data: %s %s", r.Verdict, r.Note)
	}
	// Rules that never act prove nothing.
	if r := conformance.Stream(limited(t), opened(t), conformance.Faulty{Name: "idle", Rules: "drop nth=100000"}, 1); r.Verdict != conformance.Fail || !strings.Contains(r.Note, "acted on none") {
		t.Errorf("faults that do not act: %s %s", r.Verdict, r.Note)
	}
}
