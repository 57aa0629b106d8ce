package main

import (
	"bytes"
	"slices"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/explain"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

// TestExplainOneAdapter connects two queue pairs of one adapter: what it captures
// where it leaves and where it comes in is followed once, and nothing is found. With a
// wrong key at the end that is all that is found.
func TestExplainOneAdapter(t *testing.T) {
	const messages, bytesEach = 40, 200_000 // many packets leave before the first comes in
	for outcome, wrong := range map[string]ib.RKey{"clean": 0, "failed": 1} {
		var file bytes.Buffer
		ctx, err := verbs.Open(verbs.Config{Network: verbs.NewNetwork(), Addr: "10.0.0.1", Capture: &file})
		must.Do(t, err)
		pd, err := ctx.AllocPD()
		must.Do(t, err)
		cq, err := ctx.CreateCQ(16, nil)
		must.Do(t, err)
		mr, err := pd.RegMR(make([]byte, bytesEach), ib.AccessLocalWrite|ib.AccessRemote)
		must.Do(t, err)
		var qps [2]*verbs.QP
		for i := range qps {
			qps[i], err = pd.CreateQP(&verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, SQSig: ib.SigAll, Cap: verbs.QPCap{MaxSendWR: 8, MaxSendSGE: 1}})
			must.Do(t, err)
		}
		for i := range qps {
			must.Do(t, qps[i].ModifyToRTS(verbs.QPAttr{
				Port: 1, AccessFlags: ib.AccessRemote, PathMTU: ib.MTU1024, DestQPN: qps[1-i].QPN(), MaxDestRDAtomic: 1,
				AV: verbs.AHAttr{DGID: ctx.QueryGID(0), HopLimit: 64, Port: 1}, Timeout: 18, RetryCnt: 7, RNRRetry: 7, MaxRDAtomic: 1,
			}))
		}
		wc := make([]verbs.WC, 1)
		for i := range messages {
			wr := verbs.SendWR{Opcode: ib.WRRDMAWrite, SGList: []verbs.SGE{mr.SGE(0, bytesEach)}, RemoteAddr: mr.Addr(), RKey: mr.RKey()}
			if i == messages-1 {
				wr.RKey += wrong
			}
			must.Do(t, qps[0].PostSend(wr))
			must.Do(t, cq.Wait(t.Context()))
			if n, err := cq.Poll(wc); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		again, err := ctx.Counters()
		must.Do(t, err)
		must.Do(t, ctx.Close())
		r, err := explain.Read(&file, explain.Config{})
		must.Do(t, err)
		repeats := 0 // a machine that is busy has them: an answer was late
		for _, f := range r.Findings {
			if f.Severity == explain.Repaired {
				repeats += f.Count
			}
		}
		if sent := again[slices.IndexFunc(again, func(c verbs.Counter) bool { return c.Name == "retrans_pkts" })]; uint64(repeats) > sent.Value {
			t.Errorf("%d packets were found to be repeats, but %d were; %+v", repeats, sent.Value, r.Verdict)
		}
		if r.Verdict.Outcome != outcome && (outcome == "failed" || r.Verdict.Bad()) {
			t.Errorf("the verdict is %+v, want %s", r.Verdict, outcome)
		}
		if r.Twice < messages*bytesEach/1024 || r.Twice > r.Packets/2 || len(r.Conversations) != 1 {
			t.Errorf("%d of %d packets were captured twice, %d conversations", r.Twice, r.Packets, len(r.Conversations))
		}
	}
}
