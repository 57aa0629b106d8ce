package judge

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/golden"
	"github.com/softhca/softhca/internal/must"
)

// TestPageOfPeers shows that the page in docs is up to date with its reports
// and topics.
func TestPageOfPeers(t *testing.T) {
	const docs = "../../docs/"
	var reports []*Report
	for _, name := range []string{"rxe-6.1", "rxe-6.12"} {
		b, err := os.ReadFile(docs + "peers/" + name + ".json")
		must.Do(t, err)
		r, err := ReadReport(bytes.NewReader(b))
		must.Do(t, err)
		if r.Summary.Responder < 80 || r.Summary.Requester < 40 {
			t.Errorf("%s: %v; want 80 and 40", name, r.Summary)
		}
		reports = append(reports, r)
	}
	b, err := os.ReadFile(docs + "peers/topics.txt")
	must.Do(t, err)
	topics, err := ReadTopics(bytes.NewReader(b))
	must.Do(t, err)
	var page bytes.Buffer
	must.Do(t, WritePage(&page, reports, topics))
	golden.Check(t, docs+"peers.md", page.Bytes())
}

// reportWith returns a report with one script that differs.
func reportWith(kernel string, ds ...Difference) *Report {
	r := &Report{Schema: Schema, Date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Adapter: Adapter{Device: "dev0", Kernel: kernel}}
	r.Add(&Result{Script: "e08_gap", Title: "A gap", Covers: []string{"E8"}, Verdict: Differs, Responder: true, Differences: ds})
	r.Add(&Result{Script: "e09_same", Verdict: Agrees, Requester: true, Same: 3})
	r.Add(&Result{Script: "c01", Verdict: NotJudged, Reason: "a reason"})
	return r
}

// TestReportIsReadBack writes a report and reads it, and refuses others.
func TestReportIsReadBack(t *testing.T) {
	one := reportWith("6.1", Difference{Line: 7, QP: "a", Kind: KindPacket, Want: "w <", Got: "g"})
	var b bytes.Buffer
	must.Do(t, one.Write(&b))
	got, err := ReadReport(&b)
	if err != nil || len(got.Results) != 3 || got.Results[0].Differences[0].Want != "w <" || got.Summary != one.Summary || !got.Date.Equal(one.Date) {
		t.Errorf("read back as %+v: %v", got, err)
	}
	for _, text := range []string{"", "{}", `{"schema":"other"}`, `{"schema":"softhca-judge/1","results":[null]}`, "[1]"} {
		if _, err := ReadReport(strings.NewReader(text)); err == nil {
			t.Errorf("%q is taken for a report", text)
		}
	}
}

// TestPage shows that a common difference of two adapters appears once, and
// that each topic must apply to one of them.
func TestPage(t *testing.T) {
	alike := Difference{
		Line: 7, Step: "< a SEND_ONLY psn=102", QP: "a", Kind: KindPacket, Want: "NAK", Got: "nothing",
		Ladder: []string{"> RC_SEND_ONLY psn=102"}, Sent: []string{"0400"},
	}
	event := Difference{Line: 9, QP: "a", Kind: KindEvent, Want: "COMM_EST", Got: "no event"}
	alone := Difference{Line: 12, Step: "post", QP: "b", Kind: KindCompletion, Want: "wc 1 SUCCESS", Got: "wc 1 FATAL_ERR"}
	told := Difference{Line: 20, Step: "step", QP: "c", Kind: KindEvent, Want: "QP_REQ_ERR", Got: "no event"}
	more := Difference{Line: 20, Step: "step", QP: "c", Kind: KindPacket, Want: "ACK", Got: "NAK"}
	reports := []*Report{reportWith("6.1", alike, event, told), reportWith("6.12", alike, alone, told, more)}
	topics, err := ReadTopics(strings.NewReader("# a comment\n\ntopic: Gaps are not told\nshown: e08_gap/a\ntext: Nothing comes\nafter a gap.\ncapture: loss_x\n"))
	must.Do(t, err)
	var b bytes.Buffer
	must.Do(t, WritePage(&b, reports, topics))
	page := b.String()
	for _, want := range []string{
		"### Gaps are not told\n\nNothing comes after a gap.\n", "Seen with: dev0, Linux 6.1; dev0, Linux 6.12. Evidence: [e08_gap](#e08_gap). Between two peers of this kind: loss_x.",
		"| COMM_EST | no event | dev0, Linux 6.1 | e08_gap |", "Line 7, `< a SEND_ONLY psn=102`, with dev0, Linux 6.1; dev0, Linux 6.12:",
		"Line 12, `post`, with dev0, Linux 6.12:", "- completion of b: expected `wc 1 SUCCESS`, got `wc 1 FATAL_ERR`",
		"Line 20, `step`, with dev0, Linux 6.12:\n", "| QP_REQ_ERR | no event | dev0, Linux 6.1; dev0, Linux 6.12 | e08_gap |", "sent 0400", "| c01 | a reason |",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if n := strings.Count(page, "> RC_SEND_ONLY psn=102"); n != 1 {
		t.Errorf("what both do is shown %d times", n)
	}
	topics[0].Shown[0].QP = "z"
	if err := WritePage(&b, reports, topics); err == nil {
		t.Error("a topic passes that no report bears out")
	}
	for _, text := range []string{"text: of nothing\n", "topic: t\nwhat: is this\n", "topic: t\n\ntext: after a blank line\n"} {
		if _, err := ReadTopics(strings.NewReader(text)); err == nil {
			t.Errorf("%q is taken for topics", text)
		}
	}
}
