package demo

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/roce"
	"github.com/softhca/softhca/verbs"
)

// loopback returns address i of two that no other test process uses.
func loopback(i int) string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 128+pid>>8&63, pid&255, i)
}

// opener opens adapters after change.
func opener(change func(*verbs.Config)) Open {
	return func(addr string, trace func(*verbs.TraceRecord)) (*verbs.Context, func() error, error) {
		cfg := verbs.Config{Addr: addr, Trace: trace}
		change(&cfg)
		hca, err := verbs.Open(cfg)
		if err != nil {
			return nil, nil, err
		}
		return hca, hca.Close, nil
	}
}

func unchanged(*verbs.Config) {}

// TestRun shows everything over the kernel's UDP.
func TestRun(t *testing.T) {
	var out strings.Builder
	err := Run(t.Context(), Options{
		AddrA: loopback(1), AddrB: loopback(2), OpenA: opener(unchanged), OpenB: opener(unchanged),
		Out: &out, Measure: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	text := out.String()
	for _, want := range []string{
		"SEND_FIRST", "SEND_MIDDLE", "SEND_LAST", "RDMA_WRITE_ONLY", "RDMA_READ_REQUEST", "RDMA_READ_RESPONSE_LAST",
		"COMPARE_SWAP", "FETCH_ADD", "ATOMIC_ACKNOWLEDGE", "NAK_REMOTE_ACCESS", "REM_ACCESS_ERR", "WR_FLUSH_ERR",
		"QP_FATAL", "QP_ACCESS_ERR", "RTS → ERR", "Gbit/s", "Everything was verified.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the output has no %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Error("escape sequences without colours")
	}
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(line) - 1; n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// TestLossIsNotVerified shows that a check can fail: packets are lost, and the
// demonstration says that some were sent again.
func TestLossIsNotVerified(t *testing.T) {
	n := verbs.NewNetwork()
	bad := opener(func(c *verbs.Config) { c.Network, c.Faults = n, verbs.Faults{Rules: "drop p=0.1 dir=in", Seed: 4} })
	var out strings.Builder
	err := Run(t.Context(), Options{
		AddrA: "10.0.0.1", AddrB: "10.0.0.2", OpenA: opener(func(c *verbs.Config) { c.Network = n }), OpenB: bad,
		Out: &out, Color: true,
	})
	if !errors.Is(err, ErrNotVerified) || !strings.Contains(out.String(), "✗ NOT TRUE:") || !strings.Contains(out.String(), "\x1b[31m") {
		t.Errorf("with 10%% loss: %v\n%s", err, out.String())
	}
	if strings.Contains(out.String(), "Everything was verified") {
		t.Error("a failed check, and yet everything was verified")
	}
}

func TestOpenFails(t *testing.T) {
	var out strings.Builder
	err := Run(t.Context(), Options{
		AddrA: loopback(3), AddrB: "192.0.2.77", OpenA: opener(unchanged), OpenB: opener(unchanged), Out: &out,
	})
	if err == nil || !strings.Contains(err.Error(), "192.0.2.77") {
		t.Errorf("adapter on a foreign address: %v", err)
	}
	// The first adapter must be closed again.
	hca, err := verbs.Open(verbs.Config{Addr: loopback(3)})
	if err != nil {
		t.Fatalf("the first adapter is still open: %v", err)
	}
	if err := hca.Close(); err != nil {
		t.Error(err)
	}
}

// record returns the trace record of a packet.
func record(kind trace.Kind, p *roce.Packet) verbs.TraceRecord {
	var buf [2048]byte
	n := p.Build(buf[:])
	r := verbs.TraceRecord{Kind: kind, PSN: p.BTH.PSN, Len: n}
	copy(r.Header[:], buf[:n])
	return r
}

func TestLadder(t *testing.T) {
	bth := func(op roce.Opcode) roce.BTH { return roce.BTH{Opcode: op, PSN: ib.NewPSN(0xabc)} }
	records := []verbs.TraceRecord{
		record(trace.PacketOut, &roce.Packet{BTH: bth(roce.RCSendOnly), Payload: make([]byte, 5)}),
		record(trace.PacketIn, &roce.Packet{BTH: bth(roce.RCAcknowledge), AETH: roce.AETH{Syndrome: roce.RNRNAK(12)}}),
		record(trace.PacketIn, &roce.Packet{BTH: bth(roce.RCAcknowledge), AETH: roce.AETH{Syndrome: roce.NAKSequence}}),
		{Kind: trace.Retry, PSN: ib.NewPSN(0xabc), Cause: "timeout"},
		{Kind: trace.Drop, PSN: ib.NewPSN(0xabd), Cause: "ghost_ack"},
		{Kind: trace.PacketIn, Header: [trace.HeaderBytes]byte{0x1f}},
	}
	var out strings.Builder
	p := &printer{w: &out}
	p.ladder(&node{addr: "10.0.0.1"}, &node{addr: "10.0.0.2"}, records)
	want := `
   A 10.0.0.1                              B 10.0.0.2
    │─ SEND_ONLY psn 000abc 5 B ───────────────────▶│  the whole message
    │◀───────── ACKNOWLEDGE psn 000abc RNR_NAK(12) ─│  no receive is posted: wait 640µs
    │◀──────── ACKNOWLEDGE psn 000abc NAK_SEQUENCE ─│  a packet before this one is missing
    │          sends again from psn 000abc          │  timeout
    │               drops psn 000abd                │  ghost_ack
    │              unreadable: opcode               │

`
	if out.String() != want {
		t.Errorf("the ladder is\n%s\nwant\n%s", out.String(), want)
	}
}
