//go:build linux

package direct

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/softhca/softhca/internal/judge"
	"github.com/softhca/softhca/interop/lab"
	"github.com/softhca/softhca/interop/matrix"
	"github.com/softhca/softhca/interop/netns"
	"github.com/softhca/softhca/interop/suite"
)

// short chooses the scripts that show one rule with few packets each.
const short = "^p"

// judged is the file with the report of all scripts with a kernel, below the
// root of the repository.
func judged(kernel string) string { return filepath.Join("docs", "peers", "rxe-"+kernel+".json") }

// scriptFamilies are the cases in which softhca judge plays protocol scripts to
// the guest's adapter.
func scriptFamilies(program func() ([]byte, error)) []suite.Family {
	return []suite.Family{{
		Name:  "judge",
		About: "softhca judge plays the protocol scripts p... to the guest's adapter: what comes of each is what docs/peers has of that kernel",
		Dims:  []matrix.Dim{matrix.IP()}, Always: true,
		Short: func(c matrix.Cell) bool { return c.Is("ip", "ipv4") },
		Cost:  45 * time.Second, Limit: 10 * time.Minute, Tries: tries, Loose: suite.Hostile,
		Run: func(ctx context.Context, l *lab.Lab, c matrix.Cell) suite.Outcome {
			o, err := playScripts(ctx, l, c, program)
			if err != nil {
				return suite.Failed("%v", err)
			}
			return o
		},
	}}
}

func playScripts(ctx context.Context, l *lab.Lab, c matrix.Cell, program func() ([]byte, error)) (suite.Outcome, error) {
	file := judged(c.Get("kernel"))
	want, err := judge.ReadFile(file)
	if err != nil {
		return suite.Outcome{}, fmt.Errorf("%s: %w (run this in the root of the repository)", file, err)
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	s, err := set(running, l, c, program)
	if err != nil {
		return suite.Outcome{}, err
	}
	defer func() { _ = s.log.Close() }()
	report := filepath.Join(l.Dir, "judge.json")
	p, err := l.Ours(ctx, "judge", "--peer", l.Peer(c).String(), "--addr", l.Own(c).String(), "--agent", netns.Peer4.String(), "--run", short, "--json", report)
	if err != nil {
		return suite.Outcome{}, err
	}
	r, err := p.Wait()
	l.Log("judge:\n%v", r)
	if err != nil {
		return suite.Outcome{}, err
	}
	got, err := judge.ReadFile(report)
	if err != nil {
		return suite.Outcome{}, fmt.Errorf("softhca judge: exit code %d, %s: %w", r.Exit, strings.TrimSpace(r.Stderr), err)
	}
	if others := compare(want, got); len(others) > 0 {
		return suite.Failed("scripts of which comes something else than %s has: %s", file, strings.Join(others, "; ")), nil
	}
	return suite.Passed("each as in "+file).With("%v", got.Summary), nil
}

// compare returns the chosen scripts whose verdicts differ between two reports.
func compare(want, got *judge.Report) (others []string) {
	found := map[string]*judge.Result{}
	for _, r := range got.Results {
		found[r.Script] = r
	}
	for _, w := range want.Results {
		if !strings.HasPrefix(w.Script, strings.TrimPrefix(short, "^")) {
			continue
		}
		g := found[w.Script]
		delete(found, w.Script)
		switch {
		case g == nil:
			others = append(others, w.Script+" was not judged to the end")
		case g.Verdict != w.Verdict:
			others = append(others, fmt.Sprintf("%s: %s, there %s", w.Script, tell(g), tell(w)))
		}
	}
	for _, g := range got.Results {
		if found[g.Script] != nil {
			others = append(others, g.Script+" is not there: run softhca judge anew, and keep its report")
		}
	}
	return others
}

// tell returns a verdict, with the first difference or the reason.
func tell(r *judge.Result) string {
	switch {
	case len(r.Differences) > 0:
		d := &r.Differences[0]
		return fmt.Sprintf("%s (line %d: want %s, got %s)", r.Verdict, d.Line, d.Want, d.Got)
	case r.Reason != "":
		return fmt.Sprintf("%s (%s)", r.Verdict, r.Reason)
	}
	return string(r.Verdict)
}
