package judge

import (
	"context"
	"strings"
	"sync"
	"testing"
)

// TestDefectsAreSeen gives our adapter a defect in sending or receiving, which
// the judge must find at the right place.
func TestDefectsAreSeen(t *testing.T) {
	plans := map[string]*Plan{}
	for _, p := range plansFor(t) {
		plans[p.Script] = p
	}
	var all sync.WaitGroup
	for _, c := range []struct {
		why, faults, script string
		kind                Kind
		got                 string // is in the first difference
	}{
		{"a wrong MSN", "corrupt byte=15 xor=2 reseal op=ACK dir=out", "p01_write_in_packets", KindPacket, "msn=3"},
		{"a wrong PSN", "corrupt byte=11 xor=1 reseal op=ACK dir=out", "p20_empty_send", KindPacket, "psn=101 ACK"},
		{"an ACK in place of a NAK", "corrupt byte=12 xor=96 reseal op=NAK dir=out", "p18_last_byte", KindPacket, "psn=103 "},
		{"no acknowledgement", "drop op=ACK dir=out", "p31_rnr_then_ready", KindPacket, "nothing"},
		{"an acknowledgement with a wrong ICRC", "corrupt byte=15 xor=1 op=ACK dir=out", "p27_p_key", KindPacket, "nothing"},
		{"a wrong byte in an answer", "corrupt byte=16 xor=1 reseal op=RDMA_READ_RESPONSE dir=out", "p04_read_lengths", KindPacket, "data="},
		{"an answer twice", "dup op=RDMA_READ_RESPONSE dir=out", "p12_reads_in_a_row", KindPacket, "FIRST psn=100 ACK msn=1 len=256 data=a*256 | RC_RDMA_READ_RESPONSE_FIRST psn=100"},
		{"a wrong byte in memory", "corrupt byte=28 xor=1 reseal op=RDMA_WRITE_ONLY dir=in", "p11_read_ahead", KindMemory, "f"},
		{"a wrong byte in a receive", "corrupt byte=12 xor=1 reseal op=SEND dir=in", "p09_scatter", KindMemory, "`"},
		{"a request that is not sent", "drop op=SEND dir=out", "e10_requester", KindPacket, "RC_FETCH_ADD"},
		{"a request that is damaged", "corrupt byte=12 xor=1 reseal op=SEND dir=out", "e22_cumulative_ack", KindPacket, "data=0x01"},
		{"a NAK that is read as another", "corrupt byte=12 xor=3 reseal op=NAK dir=in", "e10_requester", KindCompletion, "REM_ACCESS_ERR"},
	} {
		judge := judgeOf(t, c.faults)
		hasten(judge)
		judge.Wait, judge.Runs = 300*judge.Quiet/16, 1
		all.Go(func() {
			err := judge.Judge(context.Background(), []*Plan{plans[c.script]}, func(r *Result) {
				if r.Verdict != Differs || r.Differences[0].Kind != c.kind || !strings.Contains(r.Differences[0].Got, c.got) {
					t.Errorf("%s: want a difference of kind %s with %q:\n%s", c.why, c.kind, c.got, r.Line(true))
				}
				if len(r.Differences) > 0 && len(r.Differences[0].Ladder) == 0 {
					t.Errorf("%s: the difference has no evidence", c.why)
				}
				if wrong := strings.Contains(c.why, "ICRC"); wrong != (r.Damaged > 0) {
					t.Errorf("%s: %d damaged packets", c.why, r.Damaged)
				}
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
