package page

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/check"
	"github.com/softhca/softhca/internal/explore"
	"github.com/softhca/softhca/internal/explore/stacks"
	"github.com/softhca/softhca/internal/must"
)

// hostile is text that does harm if it is not escaped.
const hostile = `</div><script>document.title = "harm"</script><img src="http://harm.invalid/x" onerror="alert(1)">` + "\x1b[31m\u202e&lt;"

// exploration returns a report with a number of results: two processes, and each verdict.
func exploration(n int) *explore.Report {
	r := &explore.Report{Version: explore.Version, Program: []string{"sh", "-c", "./test.sh " + hostile}, Processes: []string{"client.1", "server.1"}, Sites: uint64(n), Planned: n, Tried: n, Millis: 61_500, Counts: map[explore.Verdict]int{}}
	verdicts := explore.Verdicts()
	for i := range n {
		v := verdicts[max(i%50-43, 0)]
		if i%50 < 43 {
			v = explore.Reported
		}
		f := explore.Result{Verdict: v, Why: fmt.Sprintf("why %d", i), Code: 1, Millis: 110}
		f.Process = r.Processes[i*2/max(n, 1)]
		f.Kind, f.What, f.Nth, f.Of, f.Error = "call", fmt.Sprintf("Call%d", i/40), uint64(i%40+1), 40, "ENOMEM"
		f.Rule = fmt.Sprintf("fail errno=ENOMEM nth=%d op=RegMR process=%s", i%40+1, f.Process)
		if v.Finding() {
			f.Output = "the last line " + hostile
		}
		if v == explore.Hung {
			f.Stacks = []stacks.Process{{PID: 7, Name: "client", Threads: []stacks.Thread{{TID: 7, Name: hostile, Count: 1, Frames: []check.Frame{{Function: "send_one", File: "client.c", Line: 81}}}}}}
		}
		r.Counts[v]++
		r.Results = append(r.Results, f)
	}
	return r
}

// writtenExploration writes the page of an exploration, and returns the name of the file.
func writtenExploration(t *testing.T, r *explore.Report) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.html")
	f, err := os.Create(file)
	must.Do(t, err)
	must.Do(t, WriteExplored(f, r))
	must.Do(t, f.Close())
	return file
}

// TestExploredPage writes pages without a browser: hostile text is escaped, and the numbers are there.
func TestExploredPage(t *testing.T) {
	b, err := os.ReadFile(writtenExploration(t, exploration(100)))
	must.Do(t, err)
	page := string(b)
	for _, want := range []string{"<h1>8 findings in 100 faults of 100</h1>", `class="failed"`, "100 in the first run", "100 planned, 100 tried, 2 never happened", "1m1.5s", `<i class="cell hung">H</i> 2 hung`, `<i class="cell reported">r</i> 88 reported`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	for _, harm := range []string{"<img", "<script>document", "\x1b", "\u202e"} {
		if strings.Contains(page, harm) {
			t.Errorf("the page has %q", harm)
		}
	}
	none := exploration(0)
	none.Cut = 7
	b, err = os.ReadFile(writtenExploration(t, none))
	must.Do(t, err)
	if page := string(b); !strings.Contains(page, "no findings in 0 faults of 0") || !strings.Contains(page, "7 more faults") || !strings.Contains(page, `class="clean"`) {
		t.Error("the page of nothing is wrong")
	}
}

// TestCellsAreBounded leaves out faults that are no findings, never a finding that fits.
func TestCellsAreBounded(t *testing.T) {
	r := exploration(maxCells + 1000)
	found := 0
	cells := cellsOf(r)
	for i := range cells {
		if cells[i].Verdict.Finding() {
			found++
		}
	}
	if len(cells) != maxCells || found != r.Findings() {
		t.Errorf("%d cells, and %d of %d findings", len(cells), found, r.Findings())
	}
	for i := range r.Results {
		r.Results[i].Verdict = explore.Crashed
	}
	r.Counts = map[explore.Verdict]int{explore.Crashed: len(r.Results)}
	if n := len(cellsOf(r)); n != maxCells {
		t.Errorf("%d cells of findings", n)
	}
}

// TestExploredInABrowser clicks through the page of an exploration of 5000 faults.
func TestExploredInABrowser(t *testing.T) {
	b := launch(t)
	for _, scheme := range []string{"light", "dark"} {
		b.screen(1366, 768, scheme)
		b.open(writtenExploration(t, exploration(200)))
		b.shot("explored-" + scheme)
	}
	b.open(writtenExploration(t, exploration(5000)))
	b.shot("explored-5000")
	if n := b.number(`document.querySelectorAll("#tree .cell").length`); n != 5000 {
		t.Errorf("%d cells", n)
	}
	b.want("#verdict h1", "400 findings in 5000 faults of 5000")
	b.want("#processes", "client.1", "server.1", "2500 faults, 200 findings")
	b.want("#tree h3", "client.1")
	b.want("#details h3", "client.1: call of Call1 4 of 40 fails with ENOMEM")
	b.want("#details", "crashed: why 43", "The end of its output", "<script>", "softhca explore --replay 'fail errno=ENOMEM nth=4 op=RegMR process=client.1'")
	if got := b.text("#tree .cell.hung"); got != "H" {
		t.Errorf("the letter of a run that hung is %q", got)
	}
	b.click("#tree .cell.hung")
	b.want("#details", "hung: why 44", "process client (7):", "send_one client.c:81")
	b.click(`#verdicts button[data-verdict="lost"]`)
	b.want("#count", "100 of 5000 faults")
	if n := b.number(`[...document.querySelectorAll("#tree .cell")].filter(e => e.checkVisibility() && e.textContent !== "L").length`); n != 0 {
		t.Errorf("%d other cells are shown", n)
	}
	b.click(`#processes button[data-process="server.1"]`)
	b.want("#count", "50 of 5000 faults")
	b.click(`#verdicts button[data-verdict="lost"]`)
	b.click(`#processes button[data-process="server.1"]`)
	b.write("#filter", "call3 -hung")
	b.want("#count", " of 5000 faults")
	b.write("#filter", "")
	b.eval(`document.activeElement.blur()`)
	b.click("#tree .cell.crashed")
	for _, key := range []string{"n", "ArrowRight", "ArrowLeft"} {
		b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": key}, nil)
	}
	b.want("#details", "hung: why 44")
	if n := b.number(`document.documentElement.scrollWidth - innerWidth`); n > 0 {
		t.Errorf("the page is %d pixels wider than the screen", n)
	}
	if got := b.eval(`document.title + document.querySelectorAll("img").length`); !strings.HasSuffix(fmt.Sprint(got), "0") || strings.HasPrefix(fmt.Sprint(got), "harm") {
		t.Errorf("hostile text was not escaped: %v", got)
	}
	b.quiet()
}
