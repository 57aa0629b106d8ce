package demo

import (
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
	"github.com/softhca/softhca/verbs"
)

// TestSilences draws a pause where A waits for a timer, also if a busy host delays the
// records, and no pause where A waits for the host.
func TestSilences(t *testing.T) {
	at := func(ms int, r verbs.TraceRecord) verbs.TraceRecord {
		r.At = time.Duration(ms) * time.Millisecond
		return r
	}
	request := func(kind verbs.TraceKind, psn uint32) verbs.TraceRecord {
		return record(kind, &roce.Packet{BTH: roce.BTH{Opcode: roce.RCSendOnly, PSN: ib.NewPSN(psn)}, Payload: make([]byte, 4)})
	}
	answer := func(psn uint32, s roce.Syndrome) verbs.TraceRecord {
		return record(verbs.TracePacketIn, &roce.Packet{BTH: roce.BTH{Opcode: roce.RCAcknowledge, PSN: ib.NewPSN(psn)}, AETH: roce.AETH{Syndrome: s}})
	}
	retry := verbs.TraceRecord{Kind: verbs.TraceRetry, PSN: ib.NewPSN(1), Cause: "timeout"}
	for name, c := range map[string]struct {
		records []verbs.TraceRecord
		want    string // the first words of each line, p for a pause
	}{
		"a loss that is recorded late": {
			[]verbs.TraceRecord{
				at(1, request(verbs.TracePacketOut, 1)), at(150, request(verbs.TraceFault, 1)), at(270, retry),
				at(270, request(verbs.TracePacketOut, 1)), at(520, request(verbs.TraceFault, 1)), at(540, retry),
			},
			"out ✗ 269ms again out ✗ 270ms again",
		},
		"a host that hesitates before the RNR timer ends": {
			[]verbs.TraceRecord{
				at(1, request(verbs.TracePacketOut, 1)), at(2, answer(1, roce.RNRNAK(31))), at(300, request(verbs.TracePacketOut, 2)),
				at(301, answer(2, roce.ACKCredits(31))), at(504, request(verbs.TracePacketOut, 3)),
			},
			"out in out in 203ms out",
		},
		"a packet of B that is lost twice": {
			[]verbs.TraceRecord{
				at(1, request(verbs.TracePacketOut, 1)), at(2, request(verbs.TraceFault, 9)), at(502, request(verbs.TraceFault, 9)),
				at(1002, request(verbs.TracePacketIn, 9)),
			},
			"out ✗ 500ms ✗ 500ms in",
		},
		"a busy host, and nothing lost": {
			[]verbs.TraceRecord{at(1, request(verbs.TracePacketOut, 1)), at(900, answer(1, roce.ACKCredits(31))), at(1800, request(verbs.TracePacketOut, 2))},
			"out in out",
		},
		"a short RNR timer on a busy host": {
			[]verbs.TraceRecord{at(1, request(verbs.TracePacketOut, 1)), at(2, answer(1, roce.RNRNAK(1))), at(600, request(verbs.TracePacketOut, 1))},
			"out in out",
		},
	} {
		var out strings.Builder
		p := &printer{w: &out, sum: new(Summary)}
		p.ladder(&node{addr: "10.0.0.1"}, &node{addr: "10.0.0.2"}, interleave(c.records, nil))
		var got []string
		for line := range strings.Lines(out.String()) {
			switch _, pause, _ := strings.Cut(line, "· · ·"); {
			case pause != "":
				got = append(got, strings.Fields(pause)[1])
			case strings.Contains(line, "✗"):
				got = append(got, "✗")
			case strings.Contains(line, "again"):
				got = append(got, "again")
			case strings.Contains(line, "▶"):
				got = append(got, "out")
			case strings.Contains(line, "◀"):
				got = append(got, "in")
			}
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: drawn as %q, want %q:\n%s", name, s, c.want, out.String())
		}
	}
}
