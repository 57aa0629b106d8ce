package demo

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
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
		cfg := verbs.Config{Addr: addr, Wire: verbs.WireUDP, Trace: trace}
		change(&cfg)
		hca, err := verbs.Open(cfg)
		if err != nil {
			return nil, nil, err
		}
		return hca, hca.Close, nil
	}
}

func unchanged(*verbs.Config) {}

// everything is what the output must have.
var everything = []string{
	"REQ comm 0x", "REP comm 0x", "RTU comm 0x", "CONNECT_REQUEST, ESTABLISHED", "after 6 moves",
	"SEND_FIRST", "SEND_MIDDLE", "SEND_LAST", "RDMA_WRITE_ONLY", "RDMA_READ_REQUEST", "RDMA_READ_RESPONSE_LAST",
	"COMPARE_SWAP", "FETCH_ADD", "ATOMIC_ACKNOWLEDGE", "NAK_REMOTE_ACCESS", "REM_ACCESS_ERR", "WR_FLUSH_ERR",
	"ATOMIC_WRITE psn", "FLUSH psn", "BIND_MW completed", "is dead", "dead key", "SEND_ONLY psn",
	"QP_ACCESS_ERR", "RTS → ERR", "Gbit/s", "DREQ comm 0x", "DREP comm 0x", "TIMEWAIT_EXIT", "Everything was verified.",
}

// wide are parts of the output on lines that are wide enough not to break them.
var wide = []string{
	"in one piece, key 0x", "make 8 B at 0x", "the answer: done", "dead key  REM_ACCESS_ERR", "rkey: window not bound", "the whole message for queue 0x",
}

// TestC3_C5_Run shows everything over the kernel's UDP.
func TestC3_C5_Run(t *testing.T) {
	var out strings.Builder
	err := Run(t.Context(), Options{
		AddrA: loopback(1), AddrB: loopback(2), OpenA: opener(unchanged), OpenB: opener(unchanged),
		Out: &out, Measure: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	complete(t, out.String(), defaultWidth)
}

// TestWidths shows everything in terminals of other widths, and of none that
// would do.
func TestWidths(t *testing.T) {
	t.Parallel()
	for width, columns := range map[int]int{40: minWidth, 80: 80, 120: 120, 300: 300} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			t.Parallel()
			out, err := onNetwork(t, "", Options{Width: width, Measure: time.Millisecond})
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			complete(t, out, columns)
		})
	}
}

// complete checks that the text has everything, in lines of limited width.
func complete(t *testing.T, text string, columns int) {
	t.Helper()
	all := everything
	if columns >= 120 {
		all = slices.Concat(everything, wide)
	}
	for _, want := range all {
		if !strings.Contains(text, want) {
			t.Errorf("the output has no %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Error("escape sequences without colours")
	}
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(line) - 1; n > columns {
			t.Errorf("%d columns of %d: %s", n, columns, line)
		}
	}
}

// onNetwork runs everything in the process; the first adapter goes wrong by
// rules.
func onNetwork(t *testing.T, rules string, o Options) (string, error) {
	t.Helper()
	n := verbs.NewNetwork()
	var out strings.Builder
	o.AddrA, o.AddrB, o.Out = "127.0.0.1", "127.0.0.2", &out
	o.OpenA = opener(func(c *verbs.Config) { c.Network, c.Faults.Rules = n, rules })
	o.OpenB = opener(func(c *verbs.Config) { c.Network = n })
	err := Run(t.Context(), o)
	return out.String(), err
}

// TestReadme finds the ladder of the README in the output: only numbers that
// are drawn differ.
func TestReadme(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../README.md")
	must.Do(t, err)
	out, err := onNetwork(t, "", Options{Width: 140})
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	drawn := regexp.MustCompile(`0x[0-9a-f]+`)
	unindented := regexp.MustCompile(`(?m)^ +`)
	shown := unindented.ReplaceAllString(drawn.ReplaceAllString(out, "#"), "")
	readme := unindented.ReplaceAllString(drawn.ReplaceAllString(string(text), "#"), "")
	_, ladder, _ := strings.Cut(readme, "\n\nA 127.0.0.1 ")
	ladder, _, _ = strings.Cut("A 127.0.0.1 "+ladder, "\n\n")
	if strings.Count(ladder, "\n") != 9 || !strings.Contains(shown, ladder) {
		t.Errorf("the README shows\n%s\nthe demonstration is\n%s", ladder, shown)
	}
}

// TestC6_LostMessages loses a message of each exchange: the connection manager
// sends it again, and everything is still verified.
func TestC6_LostMessages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ rules, want string }{
		{"drop op=REQ nth=1", "✗ REQ comm 0x"}, {"drop op=REP nth=1", "✗ REP comm 0x"}, {"drop op=RTU nth=1", "✗ RTU comm 0x"},
		{"drop op=DREQ nth=1", "✗ DREQ comm 0x"}, {"drop op=DREP nth=1", "✗ DREP comm 0x"},
	} {
		t.Run(c.rules, func(t *testing.T) {
			t.Parallel()
			out, err := onNetwork(t, c.rules, Options{})
			if err != nil || !strings.Contains(out, c.want) || !strings.Contains(out, " later\n") {
				t.Errorf("%v, and no %q or no pause in\n%s", err, c.want, out)
			}
		})
	}
}

// TestC6_NoConnection draws what happened before the connection manager gave
// up, and ends.
func TestC6_NoConnection(t *testing.T) {
	t.Parallel()
	out, err := onNetwork(t, "drop op=REP", Options{})
	if err == nil || strings.Count(out, "✗ REP comm 0x") < messageRetries || strings.Contains(out, "verified") {
		t.Errorf("without a REP: %v\n%s", err, out)
	}
}

// TestLossIsNotVerified shows that a check can fail: packets are lost, and the
// demonstration reports retransmissions.
func TestLossIsNotVerified(t *testing.T) {
	out, err := onNetwork(t, "drop op=RC_SEND nth=2", Options{Color: true})
	if !errors.Is(err, ErrNotVerified) || !strings.Contains(out, "✗ NOT TRUE:") || !strings.Contains(out, "\x1b[31m") {
		t.Errorf("with a packet lost: %v\n%s", err, out)
	}
	if strings.Contains(out, "Everything was verified") {
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
	must.Do(t, hca.Close())
}

// record returns the trace record of a packet.
func record(kind verbs.TraceKind, p *roce.Packet) verbs.TraceRecord {
	var buf [2048]byte
	n := p.Build(buf[:])
	r := verbs.TraceRecord{Kind: kind, PSN: p.BTH.PSN, Len: n}
	copy(r.Header[:], buf[:n])
	return r
}

func TestLadder(t *testing.T) {
	bth := func(op roce.Opcode) roce.BTH { return roce.BTH{Opcode: op, PSN: ib.NewPSN(0xabc)} }
	a := []verbs.TraceRecord{
		record(verbs.TracePacketOut, &roce.Packet{BTH: bth(roce.RCSendOnly), Payload: make([]byte, 5)}),
		record(verbs.TracePacketIn, &roce.Packet{BTH: bth(roce.RCAcknowledge), AETH: roce.AETH{Syndrome: roce.RNRNAK(12)}}),
		record(verbs.TracePacketIn, &roce.Packet{BTH: bth(roce.RCAcknowledge), AETH: roce.AETH{Syndrome: roce.NAKSequence}}),
		{Kind: verbs.TraceRetry, PSN: ib.NewPSN(0xabc), Cause: "timeout"},
		{Kind: verbs.TraceDrop, PSN: ib.NewPSN(0xabd), Cause: "ghost_ack"},
		{Kind: verbs.TracePacketIn, Header: [verbs.TraceHeaderBytes]byte{0x1f}},
	}
	var out strings.Builder
	p := &printer{w: &out, sum: new(Summary)}
	p.ladder(&node{addr: "10.0.0.1"}, &node{addr: "10.0.0.2"}, interleave(a, nil))
	want := `
   A 10.0.0.1                                B 10.0.0.2
    │─ SEND_ONLY psn 0x000abc 5 B ───────────────────▶│  the whole message
    │◀───────── ACKNOWLEDGE psn 0x000abc RNR_NAK(12) ─│  no receive is posted: wait 640µs
    │◀──────── ACKNOWLEDGE psn 0x000abc NAK_SEQUENCE ─│  a packet before this one is missing
    │          sends again from psn 0x000abc          │  timeout
    │               drops psn 0x000abd                │  ghost_ack
    │               unreadable: opcode                │
`
	if out.String() != want {
		t.Errorf("the ladder is\n%s\nwant\n%s", out.String(), want)
	}
}

// cm returns the trace record of a CM message.
func cm(kind verbs.TraceKind, psn uint32, attr mad.AttrID, message interface{ Put(m *mad.MAD) }) verbs.TraceRecord {
	var m mad.MAD
	m.PutHeader(mad.CMHeader(attr, 1))
	message.Put(&m)
	return record(kind, &roce.Packet{BTH: roce.BTH{Opcode: roce.UDSendOnly, DestQP: ib.QPNGSI, PSN: ib.NewPSN(psn)}, Payload: m[:]})
}

// TestC3_LadderOfConnection draws a set-up whose first REP is lost: the state
// changes of both queue pairs are at their place, and text that does not fit
// next to an arrow continues below.
func TestC3_LadderOfConnection(t *testing.T) {
	move := func(from, to ib.QPState) verbs.TraceRecord {
		return verbs.TraceRecord{Kind: verbs.TraceState, From: from, To: to, Cause: "modify"}
	}
	req := &mad.REQ{LocalCommID: 0xa, ServiceID: mad.IPServiceID(mad.PSTCP, 7471), LocalQPN: 0x11, StartingPSN: ib.NewPSN(0x111)}
	rep := &mad.REP{LocalCommID: 0xb, RemoteCommID: 0xa, LocalQPN: 0x22, StartingPSN: ib.NewPSN(0x222)}
	rtu := &mad.RTU{LocalCommID: 0xa, RemoteCommID: 0xb}
	lost := cm(verbs.TraceFault, 0, mad.AttrREP, rep)
	lost.Cause = "drop op=REP nth=1"
	a := []verbs.TraceRecord{
		move(ib.RESET, ib.INIT), cm(verbs.TracePacketOut, 0, mad.AttrREQ, req), lost, cm(verbs.TracePacketIn, 1, mad.AttrREP, rep),
		move(ib.INIT, ib.RTR), move(ib.RTR, ib.RTS), cm(verbs.TracePacketOut, 1, mad.AttrRTU, rtu),
	}
	b := []verbs.TraceRecord{
		cm(verbs.TracePacketIn, 0, mad.AttrREQ, req), move(ib.RESET, ib.INIT), move(ib.INIT, ib.RTR), move(ib.RTR, ib.RTS),
		cm(verbs.TracePacketOut, 0, mad.AttrREP, rep), cm(verbs.TracePacketOut, 1, mad.AttrREP, rep), cm(verbs.TracePacketIn, 1, mad.AttrRTU, rtu),
		move(ib.RTS, ib.ERR),
	}
	var out strings.Builder
	p := &printer{w: &out, width: 80, sum: new(Summary)}
	p.ladder(&node{addr: "10.0.0.1"}, &node{addr: "10.0.0.2"}, interleave(a, b))
	want := `
   A 10.0.0.1                                B 10.0.0.2
    │ RESET → INIT                                    │  A has a queue pair
    │─ REQ comm 0x0000000a ──────────────────────────▶│  connect me to tcp:7471;
    │                                                 │  my QP is 0x000011, send
    │                                                 │  to it from psn 0x000111
    │                                                 │  on
    │                                    RESET → INIT │  B has a queue pair
    │                                      INIT → RTR │  ready to receive from A
    │                                       RTR → RTS │  ready to send to A
    │     ✗ REP comm 0x0000000b remote 0x0000000a     │  fault on demand: drop
    │                                                 │  op=REP nth=1
    │◀──────── REP comm 0x0000000b remote 0x0000000a ─│  accepted; my QP is
    │                                                 │  0x000022, send to it
    │                                                 │  from psn 0x000222 on
    │ INIT → RTR                                      │  ready to receive from B
    │ RTR → RTS                                       │  ready to send to B
    │─ RTU comm 0x0000000a remote 0x0000000b ────────▶│  ready to use: the
    │                                                 │  connection is set up
    │                                       RTS → ERR │  B has disconnected
`
	if out.String() != want {
		t.Errorf("the ladder is\n%s\nwant\n%s", out.String(), want)
	}
}

// TestMessages explains every message of the CM.
func TestMessages(t *testing.T) {
	for attr := mad.AttrREQ; attr <= mad.AttrAPR; attr++ {
		r := cm(verbs.TracePacketIn, 0, attr, &mad.RTU{LocalCommID: 7, RemoteCommID: 9})
		label, meaning := explainMAD(r.MAD())
		if !strings.HasPrefix(label, attr.String()+" ") || !strings.Contains(label, "0x00000007") || meaning == "" {
			t.Errorf("%v is called %q and explained as %q", attr, label, meaning)
		}
	}
	other := cm(verbs.TracePacketIn, 0, mad.AttrAPR+1, &mad.RTU{})
	if label, meaning := explainMAD(other.MAD()); label != "MAD CM Send" || meaning != "" {
		t.Errorf("what is no message is called %q and explained as %q", label, meaning)
	}
}

// TestV15_RunMigration shows a connection that survives the loss of its path,
// over the kernel's UDP.
func TestV15_RunMigration(t *testing.T) {
	a, b := loopback(11)+","+loopback(12), loopback(13)+","+loopback(14)
	cut := func(c *verbs.Config) { c.Faults = verbs.Faults{Rules: PathCut(loopback(13)), Seed: 1} }
	var out strings.Builder
	err := RunMigration(t.Context(), Options{AddrA: a, AddrB: b, OpenA: opener(cut), OpenB: opener(unchanged), Out: &out})
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{
		"A REARM, B REARM", "A is ARMED, B is ARMED", "A moves to the alternate path", "B moves to the alternate path",
		"sends again from psn", "event PATH_MIG", "B's memory has the data of A", "DISCONNECTED", "Everything was verified.",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output has no %q:\n%s", want, out.String())
		}
	}
}

// TestRunMigrationNotCut checks that the demonstration notices a missing
// migration.
func TestRunMigrationNotCut(t *testing.T) {
	n := verbs.NewNetwork()
	on := opener(func(c *verbs.Config) { c.Network = n })
	var out strings.Builder
	err := RunMigration(t.Context(), Options{AddrA: "10.0.0.1,10.0.1.1", AddrB: "10.0.0.2,10.0.1.2", OpenA: on, OpenB: on, Out: &out})
	if err == nil || !strings.Contains(err.Error(), "PATH_MIG") {
		t.Errorf("without a cut: %v\n%s", err, out.String())
	}
}

// TestC14_RunDatagrams shows a channel that two queue pairs share, over the kernel's
// UDP.
func TestC14_RunDatagrams(t *testing.T) {
	var out strings.Builder
	err := RunDatagrams(t.Context(), Options{
		AddrA: loopback(15), AddrB: loopback(16), OpenA: opener(unchanged), OpenB: opener(unchanged), Out: &out,
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{
		"over a new channel", "over the existing", "A has an EE context", "two connections, one channel", "RNR", "RESYNC",
		"while the other one waits", "in RTS; connections over it: 1", "in ERR; connections over it: 0", "Everything was verified.",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output has no %q:\n%s", want, out.String())
		}
	}
}
