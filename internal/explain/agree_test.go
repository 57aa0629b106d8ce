package explain

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fault"
)

var (
	agreeSeed = flag.Uint64("agree-seed", 1, "of the first play whose verdict is compared with the completions")
	agreeRuns = flag.Int("agree-runs", 100, "how many plays there are")
)

// agreeHard are seeds whose verdicts once disagreed: answers and refusals that came after
// the requester had given up, answers that came more than once, and what is pinned below.
var agreeHard = []uint64{211, 290, 472, 564, 707, 1096, 1234, 3709, 4908, 4946, 8009, 8102, 9250, 10516, 2045, 2429, 12223, 17060, 17462}

// delays finds the time of a rule that delays.
var delays = regexp.MustCompile(`^delay \d+ms`)

// drawn returns a play of a seed: a rule, and perhaps a program with a bug.
func drawn(seed uint64) playConfig {
	r := rand.New(rand.NewPCG(seed, 11))
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	ms, nth, p := 1+r.IntN(200), 1+r.IntN(60), []string{"0.05", "0.2", "0.5", "0.8", "1"}[r.IntN(5)]
	op := pick("", " op=ACK", " op=SEND_ONLY", " op=SEND", " op=RDMA_WRITE", " op=RDMA_READ_REQUEST", " op=RDMA_READ_RESPONSE", " op=ATOMIC_ACK", " op=FETCH_ADD")
	op += pick("", "", " dir=in", " dir=out")
	after := fmt.Sprintf(" after=%dus", 100+r.IntN(2000))
	c := playConfig{
		side: r.IntN(2), typ: ib.RC, retry: uint8(r.IntN(8)), rnr: uint8(r.IntN(8)), timeout: uint8(8 + r.IntN(8)), rnrTimer: uint8(1 + r.IntN(20)),
		recvs: recvsPosted, badKey: -1, badRange: -1, shortRecv: -1,
	}
	if r.IntN(6) == 0 {
		c.typ = ib.UC
		op = pick("", " dir=in", " dir=out")
	}
	switch r.IntN(12) {
	case 0, 1:
		c.recvs = r.IntN(30)
	case 2:
		c.badKey = r.IntN(works)
	case 3:
		c.badRange = r.IntN(works)
	case 4:
		c.shortRecv = r.IntN(30)
	}
	c.rule = pick(
		fmt.Sprintf("drop nth=%d", nth)+op, "drop p="+p+op, "drop p="+p+op+after, "drop p=1"+after, fmt.Sprintf("delay %dms p=", ms)+p+op,
		fmt.Sprintf("delay %dms", ms)+op, "dup p="+p+op, fmt.Sprintf("corrupt nth=%d", nth)+op, "corrupt p="+p+op, fmt.Sprintf("truncate 40 nth=%d", nth)+op,
		"reorder p=0.2"+op, fmt.Sprintf("partition%s for=%dms", after, ms), "partition"+after, fmt.Sprintf("rate %dMbit/s", 1+r.IntN(100)),
	)
	if c.typ == ib.RC && r.IntN(3) == 0 {
		c.side = responder
		c.rule = pick(
			fmt.Sprintf("rnr count=%d", 1+r.IntN(10)), "rnr", fmt.Sprintf("rnr p=%s", p), "nak SEQUENCE p=0.2", fmt.Sprintf("nak INVALID_REQUEST nth=%d", nth),
			fmt.Sprintf("nak REMOTE_ACCESS op=RDMA_WRITE nth=%d", nth), fmt.Sprintf("nak REMOTE_OPERATIONAL nth=%d", nth), "qp to=ERR"+after, "fillcq"+after,
		)
	}
	if c.far = c.side == responder && r.IntN(2) == 0; c.far {
		// The requester gives up after 13 to 67 ms, and what is delayed comes long after:
		// in between no capture tells whether it still waited.
		c.retry, c.timeout = 2+c.retry%2, 10+c.timeout%3
		c.rule = delays.ReplaceAllString(c.rule, "delay 300ms")
	}
	if c.typ == ib.UC && r.IntN(2) == 0 {
		c.typ = ib.UD
	}
	return c
}

// hasty returns the play of a seed with a requester that gives up soon: it has few retries
// or none, and its timer may be shorter than any delay, though longer than prompt.
func hasty(seed uint64) playConfig {
	c, r := drawn(seed), rand.New(rand.NewPCG(seed, 12))
	c.retry, c.timeout = uint8(r.IntN(3)), uint8(8+r.IntN(4))
	return c
}

// TestVerdictsAgreeWithCompletions has programs run into trouble that a seed draws, in
// virtual time, and compares the verdict on the capture of one side with the completions
// that the programs got: what failed is not clean, no status is wrong, and no request is
// said to have failed if all were completed.
func TestVerdictsAgreeWithCompletions(t *testing.T) {
	a := agreement{byStatus: map[ib.WCStatus]int{}}
	seeds := slices.Clone(agreeHard)
	for i := range *agreeRuns {
		seeds = append(seeds, *agreeSeed+uint64(i))
	}
	for _, seed := range seeds {
		a.play(t, seed, drawn(seed))
		a.play(t, seed, hasty(seed))
	}
	a.check(t)
}

// agreement compares verdicts with completions.
type agreement struct {
	plays, told, failed int
	byStatus            map[ib.WCStatus]int
}

// play compares those of a play.
func (a *agreement) play(t *testing.T, seed uint64, c playConfig) {
	t.Helper()
	p := c.play(t)
	r := p.run()
	a.plays++
	if wrong := p.disagrees(&r.Verdict); wrong != "" {
		t.Errorf("seed %d (-agree-seed): %s: %+v, completions %v, %d of %d done: %s, %s, requester %q, responder %q; found %s",
			seed, wrong, c, p.status, p.done, works, r.Verdict.Outcome, r.Verdict.Where, r.Verdict.Requester, r.Verdict.Responder, names(r))
	}
	if s := p.status[requester]; s != ib.WCSuccess {
		a.failed++
		a.byStatus[s]++
		if r.Verdict.Requester != "" {
			a.told++
		}
	}
}

// check wants verdicts that name statuses, and plays with different ones.
func (a *agreement) check(t *testing.T) {
	t.Helper()
	t.Logf("seeds from %d on (-agree-seed): %d plays, %d failed, the verdict names the status of %d; %v", *agreeSeed, a.plays, a.failed, a.told, a.byStatus)
	if *agreeRuns >= 100 && (a.told < a.failed*3/4 || len(a.byStatus) < 4) {
		t.Errorf("of %d failures the verdict names the status of %d only, or there are too few statuses: %v", a.failed, a.told, a.byStatus)
	}
}

// TestLateAnswers captures a requester whose requests are delayed at the responder until
// its retries are used up: the verdict is its error, although each request was answered.
func TestLateAnswers(t *testing.T) {
	p := drawn(290).play(t)
	v := p.run().Verdict
	if p.status[requester] != ib.WCRetryExcErr || v.Outcome != "failed" || v.Cause != table[answersLate].Name || !strings.Contains(v.Requester, "RETRY_EXC_ERR") ||
		!strings.Contains(v.Where, "ms after the last repeat") {
		t.Errorf("the requester completes with %v, and the verdict is %+v", p.status[requester], v)
	}
}

// TestPlaysOnceMisjudged pins the verdicts on plays whose verdicts were wrong.
func TestPlaysOnceMisjudged(t *testing.T) {
	for _, k := range []struct {
		seed      uint64
		outcome   string
		cause     ruleID
		requester []ib.WCStatus
		why       string
	}{
		{472, "repaired", icrcDamaged, nil, "a response to a READ that arrived once is not missing when a copy of it is damaged"},
		{12223, "repaired", readResponseLost, nil, "a response that looks like one that was damaged on its way out replaces it"},
		{3709, "failed", refusalLate, []ib.WCStatus{ib.WCRemAccessErr, ib.WCRetryExcErr}, "a repeat of an earlier request does not show that the requester missed the NAK"},
		{4946, "failed", rnrOrSilence, []ib.WCStatus{ib.WCRNRRetryExcErr, ib.WCRetryExcErr}, "the requester heeds no RNR NAK that a rule lost"},
		{17060, "failed", refusalLate, []ib.WCStatus{ib.WCRemInvReqErr, ib.WCRetryExcErr}, "a READ before the refused request may fail first: its responses were damaged"},
		{8009, "failed", refusalLate, []ib.WCStatus{ib.WCRemInvReqErr, ib.WCRetryExcErr}, "repeats that a rule delayed do not show that the requester missed the NAK"},
	} {
		v := drawn(k.seed).play(t).run().Verdict
		if want := Statuses(k.requester).String(); v.Outcome != k.outcome || v.Cause != table[k.cause].Name || v.Requester != want {
			t.Errorf("seed %d: %s, %s, %q, want %s, %s, %q: %s", k.seed, v.Outcome, v.Cause, v.Requester, k.outcome, table[k.cause].Name, want, k.why)
		}
	}
}

// reliable reports whether the requests of the play are answered.
func (c *playConfig) reliable() bool { return c.typ == ib.RC || c.typ == ib.RD }

// disagrees says what of a verdict is wrong, "" if it is right.
func (p *play) disagrees(v *Verdict) string {
	got, all := p.status[requester], p.done == works && !p.failed
	answered := (v.Outcome == "clean" || v.Outcome == "repaired") && !strings.Contains(strings.Join(v.Caveats, "\n"), noRetriesLeft)
	switch {
	case !p.reliable() && answered:
		return "nothing answers on UC and UD"
	case got != ib.WCSuccess && answered:
		return "a request failed"
	case got != ib.WCSuccess && v.Requester != "" && !strings.Contains(v.Requester, got.String()):
		return "another status"
	case all && p.reliable() && v.Bad():
		return "no request failed"
	case !all && got == ib.WCSuccess && p.side == responder && p.live.Action.Layer() != fault.Verbs && answered:
		return "requests were not completed"
	}
	if got := p.status[responder]; got != ib.WCSuccess && v.Responder != "" && !strings.Contains(v.Responder, got.String()) {
		return "another status of the responder"
	}
	return ""
}
