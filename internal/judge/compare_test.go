package judge

import (
	"strings"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
)

// packetsOfWords makes packets of words such as ACK101, NAK103, R100, REQ7:
// responses and requests with a PSN.
func packetsOfWords(t *testing.T, words string) []*roce.Packet {
	t.Helper()
	var out []*roce.Packet
	for _, w := range strings.Fields(words) {
		kind := strings.TrimRight(w, "0123456789")
		psn := uint32(0)
		for _, c := range w[len(kind):] {
			psn = psn*10 + uint32(c-'0')
		}
		p := &roce.Packet{}
		switch kind {
		case "ACK":
			p.BTH.Opcode, p.AETH.Syndrome = roce.RCAcknowledge, roce.ACKCredits(uint8(len(out)))
		case "NAK":
			p.BTH.Opcode, p.AETH.Syndrome = roce.RCAcknowledge, roce.NAKSequence
		case "R":
			p.BTH.Opcode = roce.RCRDMAReadResponseOnly
		case "REQ":
			p.BTH.Opcode = roce.RCSendOnly
		default:
			t.Fatalf("%s is no packet", w)
		}
		p.BTH.PSN, p.Info = ib.NewPSN(psn), p.BTH.Opcode.Info()
		p.BTH.AckReq, p.BTH.MigReq = len(out)%2 == 0, len(out)%2 == 1 // of no concern
		out = append(out, p)
	}
	return out
}

// TestComparePackets shows what counts as the same.
func TestComparePackets(t *testing.T) {
	for _, c := range []struct {
		why, want, got string
		verdict        verdict
	}{
		{"nothing is nothing", "", "", equal},
		{"the same", "ACK101 R102", "ACK101 R102", equal},
		{"one acknowledgement for several", "ACK100 ACK101 ACK102", "ACK102", equal},
		{"several for one", "ACK102", "ACK100 ACK101 ACK102", equal},
		{"a READ response acknowledges too", "R102", "ACK101 R102", equal},
		{"the first of several is only a beginning", "ACK102", "ACK100", missing},
		{"PSNs wrap", "ACK0", "ACK16777215 ACK0", equal},
		{"a NAK is never left out", "NAK101 ACK102", "ACK102", other},
		{"a response is never left out", "R101 R102", "R102", other},
		{"a later acknowledgement is another", "ACK101", "ACK102", other},
		{"one that is missing", "R101 R102", "R101", missing},
		{"one too many", "R101", "R101 R102", surplus},
		{"any packet where silence belongs", "", "ACK100", surplus},
		{"requests and responses mix as they like", "REQ200 R101 REQ201 R102", "R101 R102 REQ200 REQ201", equal},
		{"but each in its order", "REQ200 R101 REQ201", "R101 REQ201 REQ200", other},
	} {
		got := comparePackets(packetsOfWords(t, c.want), packetsOfWords(t, c.got), true)
		if got.verdict != c.verdict {
			t.Errorf("%s: %q and %q compare as %d, want %d", c.why, c.want, c.got, got.verdict, c.verdict)
		}
	}
}

// TestMSNCanBeLeftOut shows that one difference of the MSN does not hide others.
func TestMSNCanBeLeftOut(t *testing.T) {
	a, b := packetsOfWords(t, "ACK101"), packetsOfWords(t, "ACK101")
	b[0].AETH.MSN = 7
	if v := comparePackets(a, b, true).verdict; v != other {
		t.Errorf("another MSN compares as %d", v)
	}
	if v := comparePackets(a, b, false).verdict; v != equal {
		t.Errorf("without the MSN they compare as %d", v)
	}
}

// TestCompletionsOfTwoQueues shows that the order counts in each queue.
func TestCompletionsOfTwoQueues(t *testing.T) {
	p := &pair{sends: map[uint64]bool{1: true, 2: true, 9: true}, recvs: map[uint64]bool{5: true, 6: true, 9: true}}
	list := func(ids ...uint64) (out []ib.WC) {
		for _, id := range ids {
			out = append(out, ib.WC{WRID: id, Status: ib.WCWRFlushErr})
		}
		return out
	}
	if a, b := p.showWCs(list(1, 2, 5, 6, 9)), p.showWCs(list(5, 1, 9, 6, 2)); a != b {
		t.Errorf("the same entries in another mixture differ: %s and %s", a, b)
	}
	if a, b := p.showWCs(list(1, 2)), p.showWCs(list(2, 1)); a == b {
		t.Errorf("sends in another order are the same: %s", a)
	}
	if s := p.showWCs(nil); s != "nothing" {
		t.Errorf("no completion is %q", s)
	}
}

// TestMerge shows that a difference counts only if each run has it.
func TestMerge(t *testing.T) {
	d := func(line int) Difference {
		return Difference{Line: line, QP: "a", Kind: KindPacket, Want: "w", Got: "g"}
	}
	run := func(v Verdict, lines ...int) *Result {
		r := &Result{Verdict: v}
		for _, l := range lines {
			r.Differences = append(r.Differences, d(l))
		}
		return r
	}
	for _, c := range []struct {
		why                   string
		runs                  []*Result
		verdict               Verdict
		differences, unstable int
	}{
		{"each run", []*Result{run(Differs, 1, 2), run(Differs, 1, 2)}, Differs, 2, 0},
		{"one in each, one not", []*Result{run(Differs, 1, 2), run(Differs, 1, 3)}, Differs, 1, 2},
		{"none in each", []*Result{run(Differs, 1), run(Differs, 2)}, NotJudged, 0, 2},
		{"a run agrees", []*Result{run(Differs, 1), run(Agrees)}, NotJudged, 0, 1},
	} {
		r := merge(c.runs)
		if r.Verdict != c.verdict || len(r.Differences) != c.differences || len(r.Unstable) != c.unstable || r.Runs != len(c.runs) {
			t.Errorf("%s: %s with %d differences, %d unstable after %d runs", c.why, r.Verdict, len(r.Differences), len(r.Unstable), r.Runs)
		}
	}
}
