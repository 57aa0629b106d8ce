//go:build mutation

package mutation

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// everyC returns the mutants in C of all lists.
func everyC() []cMutant {
	var secure []cMutant
	if os.Geteuid() == 0 {
		secure = cSecureMutants
	}
	return slices.Concat(secure, cPostMutants, cRefusedMutants, cToldMutants, cQueueMutants, cEventMutants, cSetMutants, cObjectMutants, cPairMutants, cDomainMutants, cEngineMutants, cProcessMutants, cFileMutants, cManagerMutants, cPreloadMutants, cNetlinkMutants, cCheckMutants)
}

// verbs are the files of the library that the model watches.
var verbs = []string{"post.c", "refused.c", "cq.c", "event.c", "ends.c", "object.c", "qp.c", "context.c", "names.c", "import.c", "dm.c", "xrc.c", "window.c", "room.c", "softhca.h"}

// engine are the files of the engine that the model watches.
var engine = []string{"room.go", "xrc.go", "mr.go", "mw.go", "dm.go"}

// recorded are the files of the library that the scenarios over the recorder watch.
var recorded = append([]string{"loader.c", "fault.c", "signals.c", "cancel.c", "files.c", "epoll.c", "nasty.c"}, verbs...)

// cJudges are asked in this order until one notices. Each judges the mutants of some files.
var cJudges = append([]cJudge{
	{pkg: programTests, run: "^TestD1_Model$/^plain$", args: []string{"-model-seed=1", "-model-steps=300"}, lib: verbsDir, of: verbs},
	{pkg: programTests, run: "^TestD1_Program$/^recorded$", lib: verbsDir, of: recorded},
	{pkg: programTests, run: "^TestD1_Model$/^plain$", args: []string{"-model-seed=2", "-model-steps=1200"}, lib: verbsDir, of: verbs},
	{pkg: programTests, run: "^TestD1_Program$/^(refusals|domains|transfer|atomic-write|flush|errors|outlived|timestamps|moderated|srq-resized|parent-cq|xrc|xrc-files|windows)$", lib: verbsDir, of: verbs},
	{pkg: programTests, run: "^TestD1_Model$/^plain$", args: []string{"-model-seed=1", "-model-steps=600"}, lib: engineDir, of: engine},
	{pkg: programTests, run: "^TestD1_Program$/^(device-memory|on-demand|windows|xrc|xrc-files|refused)$", lib: engineDir, of: engine},
	{pkg: programTests, run: "^TestD1_Program$/^(device-memory|on-demand|refused)$", lib: verbsDir, of: []string{"dm.c", "dmabuf.c", "import.c", "object.c"}},
	{pkg: programTests, run: "^TestD1_Program$/^fork-(keeps|closes|polls)$", lib: verbsDir, of: []string{"loader.c", "context.c", "event.c", "cq.c"}},
	{pkg: programTests, run: "^TestD1_Program$/^preloaded$/^handler-(late|sent|sent-inside)$", lib: verbsDir, of: []string{"fault.c"}},
	{pkg: programTests, run: "^TestD1_Program$/^preloaded$/^signals-of-child$", lib: verbsDir, of: []string{"signals.c"}},
	{pkg: programTests, run: "^TestD1_Program$/^(standard-closed|other-build|none-inherited)$", lib: verbsDir, of: []string{"loader.c", "files.c"}},
	{pkg: programTests, run: "^TestD2_CMPrograms$/^(rdma-cm|rdma-cm-fork|rdma-cm-closed|no-descriptors)$", lib: verbsDir, of: []string{"ucm.c"}},
	{pkg: programTests, run: "^TestPrivilegedPrograms$", lib: verbsDir, of: []string{"loader.c", "context.c"}},
	{pkg: programTests, run: "^TestPrivilegedPrograms$", lib: preloadDir, of: []string{"path.c"}},
	{pkg: programTests, run: "^TestD2_CMCalls$/^closing-", lib: verbsDir, of: []string{"ucm.c"}},
	{pkg: preloadTests, run: "^TestCalls$", lib: preloadDir, of: []string{"path.c", "open.c", "value.c", "board.c", "status.c", "name.c", "exit.c"}},
	{pkg: preloadTests, run: "^TestW1_(CountersOfSeveralProcesses|StateOfSeveralProcesses|CountersNeverDecrease|ReadersWaitForOneThatEnds)$", lib: preloadDir, of: []string{"board.c"}},
	{pkg: programTests, run: "^TestD2_CMCalls$/^title$", lib: verbsDir, of: []string{"loader.c"}},
	{pkg: preloadTests, run: "^TestW1_(NetlinkCalls|RdmaTool|LongDump|OtherTables|NamedDirectory|DamagedTables|TornRows)$", lib: preloadDir, of: []string{"netlink.c", "table.c", "answer.c", "objects.c"}},
	{pkg: programTests, run: "^TestD1_Program$/^preloaded$/^closes", lib: preloadDir, of: []string{"close.c"}},
	{pkg: programTests, run: "^TestD1_Program$/^recorded$/^recorded-(told|waits|caught)$", lib: preloadDir, of: []string{"handler.c", "cancel.c"}},
	{pkg: programTests, run: "^TestD1_Program$/^recorded$/^recorded-sets$", lib: preloadDir, of: []string{"epoll.c"}},
	{pkg: programTests, run: "^TestD2_CMPrograms$/^rdma-cm$", lib: preloadDir, of: []string{"rdma_cm.c"}},
	{pkg: programTests, run: "^TestD2_CMCalls$/^ends-_exit$", lib: preloadDir, of: []string{"exit.c"}},
}, cCheckJudges...)

// TestMutantsInC builds the C library and the preload library with each bug of the lists.
// A judge must notice each bug. Each judge also gets libraries in which a file was replaced
// by itself, and must not notice: a bug that changes nothing is reported as one that no
// test notices.
func TestMutantsInC(t *testing.T) {
	root, err := filepath.Abs("../..")
	must.Do(t, err)
	all := everyC()
	texts := make([][]byte, len(all))
	for i := range all {
		if texts[i], err = all[i].edit(root); err != nil {
			t.Errorf("mutant %s: %v", all[i].name, err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	g, err := newCRig(t.Context(), root, t.TempDir())
	switch {
	case errors.Is(err, errNoHeaders):
		t.Skip(err) // capi/test says which to install
	case err != nil:
		t.Fatal(err)
	}
	by := make([]string, len(all))
	t.Run("none", func(t *testing.T) { pass(t, g) })
	t.Run("each", func(t *testing.T) {
		for i := range all {
			if !wanted(i) {
				continue
			}
			t.Run(all[i].name, func(t *testing.T) {
				t.Parallel()
				var err error
				if by[i], err = g.try(t.Context(), all[i].file(), texts[i], cJudges); err != nil {
					t.Fatal(err)
				}
				if by[i] == "" {
					t.Errorf("no test notices that a program sees %s", all[i].sees)
				} else {
					t.Logf("noticed by %s", by[i])
				}
			})
		}
	})
	var b strings.Builder
	for i := range all {
		fmt.Fprintf(&b, "%-44s %s\n", all[i].name, by[i])
	}
	t.Logf("what noticed the mutants:\n%s", &b)
}

// pass asks each judge about libraries in which a file was replaced by itself.
func pass(t *testing.T, g *cRig) {
	for i, j := range cJudges {
		t.Run(j.pkg+" "+j.run, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(j.lib, j.of[0])
			text, err := os.ReadFile(filepath.Join(g.root, file))
			must.Do(t, err)
			by, err := g.try(t.Context(), file, text, cJudges[i:i+1])
			if by != "" || err != nil {
				t.Errorf("without a mutant, %s complains (%v)", by, err)
			}
		})
	}
}

// TestCUnits finds what a file in C defines, in spite of braces in comments, strings and
// directives.
func TestCUnits(t *testing.T) {
	text, err := os.ReadFile("testdata/moved/moved.c")
	must.Do(t, err)
	var have []string
	for _, u := range cUnits(text) {
		have = append(have, u.name)
	}
	want := []string{"TWICE", "table", "first", "callback", "line", "ibv_verb", "twin", "twin"}
	if !slices.Equal(have, want) {
		t.Errorf("the file defines %q, want %q", have, want)
	}
}

// TestMovedCSource shows that a mutant in C is refused, with what to do, if what it
// changes is gone, has moved, is there twice or is not changed.
func TestMovedCSource(t *testing.T) {
	for _, c := range []struct {
		why           string
		in, old, with string
		want          string // in the error; empty: there is none
	}{
		{"found", "first", "once(4);", "", ""},
		{"found in a table", "table", "{1, 2}", "{2, 2}", ""},
		{"found in a macro", "TWICE", "once(1)", "once(2)", ""},
		{"found in a function that a macro declares", "ibv_verb", "f(b)", "f(a)", ""},
		{"the function is gone", "gone", "only(", "(", "0 definitions of gone, want one; it is in line: name that"},
		{"there are two", "twin", "return 1", "return 2", "2 definitions"},
		{"it has moved", "first", "only(", "(", "it is in line"},
		{"it is nowhere", "first", "never(", "(", "nowhere else"},
		{"it is there twice", "callback", "again(f)", "f", "2 times"},
		{"nothing changes", "first", "once(4)", "once(4)", "nothing changes"},
		{"it is several lines", "first", "once(4)", "once(4);\n", "one line"},
	} {
		m := cMutant{in: "testdata/moved/moved.c:" + c.in, old: c.old, new: c.with}
		text, err := m.edit(".")
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want an error with %q", c.why, err, c.want)
		}
		if c.want == "" && !bytes.Contains(text, []byte(c.with)) {
			t.Errorf("%s: nothing has changed", c.why)
		}
	}
}
