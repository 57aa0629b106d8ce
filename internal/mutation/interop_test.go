//go:build mutation

package mutation

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/must"
)

var (
	interop      = flag.Bool("interop", false, "have the interop runner notice its seeded bugs: it boots guests and needs what make interop needs")
	interopCache = flag.String("interop-cache", "", "the runner's cache; empty: its usual one")
)

const (
	interopKernel = "6.1"
	interopPage   = "interop-gate.md"
	maxNote       = 160 // bytes of what a case says
	// interopLimit bounds the cases of one bug.
	interopLimit = 10 * time.Minute
)

// The cases of the short run that are run.
const (
	pingpongCases   = "library-pingpong/6.1/ibv_rc_pingpong/"
	rpingCases      = "rping/6.1/small/"
	operationsCases = "operations/6.1/RC/"
	allCases        = pingpongCases + "|" + rpingCases + "|" + operationsCases
)

// interopMutant is a bug that the interop runner must notice between two
// adapters, and what the note of a case that fails must say.
type interopMutant struct {
	mutant
	cases string // that are run, an expression
	says  string // an expression
}

var interopMutants = []interopMutant{
	{
		mutant{name: "wrong MSN", in: "internal/qp.sendAck", old: "$r.msn", new: "$r.msn.Next()"},
		allCases, `MSN \d+ where \d+ messages are complete`,
	},
	{
		mutant{name: "wrong AETH credit", in: "internal/qp.responder.syndrome",
			old: "if !ok || !r.ep.env.Settings.Credits { return roce.ACKUnlimited }",
			new: "if !ok || !r.ep.env.Settings.Credits { return roce.ACKCredits(1) }"},
		allCases, `credit code \d+`,
	},
	{
		mutant{name: "ICRC with a wrong identification in each second packet of a run", in: "internal/qp.finish", old: "uint16(id)", new: "uint16(id &^ 1)"},
		pingpongCases, `[1-9]\d* frames of ours and 0 of the peer's are wrong`,
	},
	{
		mutant{name: "one byte of payload", in: "internal/qp.gather",
			old: "f := $m.Gather($*args)",
			new: "f := $m.Gather($*args); dst[len(dst)-1] ^= 1"},
		operationsCases, `\d+ of \d+: RC`,
	},
	{
		mutant{name: "lost RTU", in: "internal/cm.sendRTU", old: "x.transmit(c, c.answer)"},
		rpingCases, `got no RTU`,
	},
}

// interopCase is what the runner's report in JSON has of a case.
type interopCase struct{ ID, Verdict, Note string }

// TestInterop checks that the interop runner notices each bug that the peer
// itself tolerates or hides. With -rewrite it writes docs/interop-gate.md.
// Without -interop it only checks that the bugs fit the source.
func TestInterop(t *testing.T) {
	root, err := filepath.Abs("../..")
	must.Do(t, err)
	plain := make([]mutant, len(interopMutants))
	for i, m := range interopMutants {
		plain[i] = m.mutant
		if _, err := m.edit(newModule(root)); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
	if t.Failed() || !*interop {
		return
	}
	g := rigOf(t, root, plain)
	page := fmt.Sprintf(interopHead, time.Now().Format("2006-01-02"), interopKernel)
	if all := runInterop(t, g, 0, allCases); len(all) == 0 || len(failedCases(all)) > 0 {
		t.Fatalf("without a bug, of %d cases fail: %v", len(all), failedCases(all))
	}
	for i, m := range interopMutants {
		all := runInterop(t, g, i+1, m.cases)
		row, err := m.row(all)
		if err != nil {
			t.Error(err)
		}
		t.Log(row)
		page += row
	}
	if *rewrite && !t.Failed() {
		must.Do(t, os.WriteFile(filepath.Join(root, "docs", interopPage), []byte(page), 0o644))
	}
}

// runInterop builds the runner, which contains all mutants, and runs cases with
// mutant number, or with none if number is 0. The command that the runner builds
// contains the mutants too.
func runInterop(t *testing.T, g *rig, number int, cases string) []interopCase {
	b := g.of(number)
	runner, out := filepath.Join(b.dir, "interop.exe"), filepath.Join(b.dir, fmt.Sprint("interop-", number, ".json"))
	must.Do(t, b.goCommand("build", "-o", runner, "./interop"))
	args := []string{"-kernel", interopKernel, "-short", "-run", "^(" + cases + ")", "-json", out}
	if *interopCache != "" {
		args = append(args, "-cache", *interopCache)
	}
	ctx, cancel := context.WithTimeout(t.Context(), interopLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, runner, args...)
	cmd.Dir = g.root
	flags := strings.TrimSpace(os.Getenv("GOFLAGS") + " -overlay=" + filepath.Join(b.dir, "overlay.json"))
	cmd.Env = append(os.Environ(), fmt.Sprint(selectVar, "=", number), "GOFLAGS="+flags)
	cmd.WaitDelay = time.Second
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	text, read := os.ReadFile(out)
	var report struct{ Results []interopCase }
	if read == nil {
		read = json.Unmarshal(text, &report)
	}
	if read != nil {
		t.Fatalf("the runner: %v, %v\n%s", err, read, said.Bytes())
	}
	return report.Results
}

func failedCases(all []interopCase) (failed []interopCase) {
	for _, c := range all {
		if c.Verdict == "FAIL" {
			failed = append(failed, c)
		}
	}
	return failed
}

// row returns the outcome of a bug as a row of a table. The error says that no
// case noticed the bug, or not in the expected way.
func (m *interopMutant) row(all []interopCase) (string, error) {
	says := regexp.MustCompile(m.says)
	var ids []string
	var told interopCase
	for _, c := range failedCases(all) {
		ids = append(ids, c.ID)
		if says.MatchString(c.Note) {
			told = cmp.Or(told, c)
		}
	}
	var err error
	if told.ID == "" {
		err = fmt.Errorf("%s: %d of %d cases fail (%s), and none says %s", m.name, len(ids), len(all), strings.Join(ids, ", "), m.says)
	}
	note := told.Note
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote], "") + " ..."
	}
	note = strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;").Replace(note)
	return fmt.Sprintf("| %s | `%s` | %d of %d | %s | %s |\n", m.name, strings.TrimPrefix(m.in, "internal/"), len(ids), len(all), told.ID, note), err
}

// TestInteropRow shows that a bug which no case notices fails the test, and one
// that is noticed for another reason.
func TestInteropRow(t *testing.T) {
	m := interopMutant{mutant{name: "x", in: "internal/qp.y"}, "", "MSN"}
	for _, c := range []struct {
		note string
		good bool
	}{{"MSN 2 where 1", true}, {"no link", false}, {"", false}} {
		all := []interopCase{{"a/1", "pass", ""}, {"a/2", "FAIL", c.note}}
		row, err := m.row(all[:1+min(len(c.note), 1)])
		if (err == nil) != c.good || c.good && row != "| x | `qp.y` | 1 of 2 | a/2 | MSN 2 where 1 |\n" {
			t.Errorf("note %q: %q, %v", c.note, row, err)
		}
	}
}

const interopHead = `# Bugs that the interop runner notices

Written by ` + "`make interop-gate`" + ` on %s; do not edit. Each row is a bug that is built into the adapter, one at a time. Then cases
of the short run are run against Linux %s, and some must fail and name the reason. Without a bug all of them pass. Linux itself tolerates most of these bugs: it accepts
any MSN, ignores credits, retransmits lost packets, and treats the first data as an RTU.

| bug | in | cases that fail | one of them | what it says |
|---|---|---|---|---|
`
