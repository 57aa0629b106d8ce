//go:build linux

package direct

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/softhca/softhca/interop/conformance"
	"github.com/softhca/softhca/interop/lab"
	"github.com/softhca/softhca/interop/matrix"
	"github.com/softhca/softhca/interop/suite"
)

const (
	seed  = 42 // of the faults and the soak
	turns = 8  // of each operation in a stream

	// soaked is the number of messages of a soak: a million with both kernels and
	// both IP versions.
	soaked = 250_000

	// tries is how often a case is played on a slow guest, which drops packets
	// of a long burst before its adapter counts them. They are sent again, but
	// the packet counts differ.
	tries = 3

	misplaced = "posts in the wrong state"
	together  = "together"
)

// play plays the cases of a family in a cell.
type play func(ctx context.Context, s *stage) ([]conformance.Result, error)

// Families returns the cases.
func Families() []suite.Family {
	program := sync.OnceValues(compile)
	run := func(f play) func(context.Context, *lab.Lab, matrix.Cell) suite.Outcome {
		return func(ctx context.Context, l *lab.Lab, c matrix.Cell) suite.Outcome {
			running, stop := context.WithCancel(ctx)
			defer stop()
			s, err := set(running, l, c, program)
			if err != nil {
				return suite.Failed("%v", err)
			}
			defer func() { _ = s.log.Close() }()
			results, err := f(ctx, s)
			if err != nil {
				return suite.Failed("%v", err)
			}
			return outcome(l, results)
		}
	}
	return slices.Concat(verbsFamilies(run), []suite.Family{migrationFamily(run), forgedFamily(run)}, dataFamilies(run), scriptFamilies(program))
}

// between opens two ends and plays cases between them.
func between(f func(ctx context.Context, p conformance.Pair, what string) []conformance.Result) play {
	return func(ctx context.Context, s *stage) ([]conformance.Result, error) {
		p, err := s.open(ctx, "")
		if err != nil {
			return nil, err
		}
		results := f(ctx, p, s.cell.Get("what"))
		if err = p.Close(); slices.ContainsFunc(results, func(r conformance.Result) bool { return r.Verdict == conformance.Fail }) {
			err = nil // the failure comes first, and often explains why the end did not close
		}
		return results, err
	}
}

type runner func(play) func(context.Context, *lab.Lab, matrix.Cell) suite.Outcome

// first are the cells of a short run.
func first(c matrix.Cell) bool {
	return (c.Is("mtu", "1024") || c.Get("mtu") == "") && (c.Is("transport", "udp") || c.Get("transport") == "") && c.Is("ip", "ipv4")
}

// lacks reports whether the peer lacks what a cell with an extension needs: rxe has ATOMIC WRITE and
// FLUSH in 6.12 but not in 6.1, and its library in the guest cannot post a FLUSH.
func lacks(c matrix.Cell, extension string) bool {
	switch extension {
	case conformance.AtomicWrite:
		return c.Is("kernel", "6.1")
	case conformance.Flush:
		return c.Is("kernel", "6.1") || c.Is("dir", "server")
	default:
		return false
	}
}

func verbsFamilies(run runner) []suite.Family {
	everywhere := []matrix.Dim{matrix.Direction(), matrix.IP(), matrix.MTU(), matrix.Transport()}
	what := func(values ...string) []matrix.Dim {
		return append([]matrix.Dim{{Name: "what", Values: values}}, everywhere...)
	}
	services := slices.DeleteFunc(conformance.OperationGroups(), func(g string) bool { return g == together })
	operations := run(between(conformance.Operations))
	lacking := func(c matrix.Cell) bool {
		x := conformance.Extension(c.Get("what"))
		return x == conformance.Flush || lacks(c, x) // rxe drops our FLUSHes because of their ICRC, as the cell of FLUSH shows
	}
	return []suite.Family{
		{
			Name: "operations", About: "every operation in every size around the path MTU, at odd addresses, gathered, inline; data and both completions",
			Dims: what(services...), Always: true, Short: first, Cost: 2 * time.Second, Tries: tries, Run: operations,
		},
		{
			Name: "sequences", About: "operations that belong together: atomics, lists, fence, events, shared receive queue, invalidation, groups",
			Dims: what(together), Always: true, Short: first, Cost: 3 * time.Second, Loose: suite.Gone, Run: operations,
		},
		{
			Name: "extensions", About: "memory windows: bound, invalidated from both sides, used when they have ended; ATOMIC WRITE; FLUSH for global visibility, ours only, since rdma-core 44 cannot post it",
			Dims: what(conformance.Windows, conformance.AtomicWrite, conformance.Flush), Skip: func(c matrix.Cell) bool { return lacks(c, c.Get("what")) },
			Short: first, Cost: 3 * time.Second, Loose: suite.Gone, Run: run(between(conformance.Extensions)),
		},
		{
			Name: "exceptions", Skip: lacking, About: "what goes wrong on purpose: statuses, states and events of both sides, and the NAK on the wire",
			Dims: what(append(conformance.ExceptionNames(), misplaced)...), Short: func(c matrix.Cell) bool { return first(c) && c.Is("kernel", "6.1") }, Cost: time.Second, Loose: suite.Gone,
			Refusal: func(c matrix.Cell) string {
				if c.Is("dir", "server") {
					return conformance.Refusal(c.Get("what"))
				}
				return ""
			},
			Run: run(between(func(ctx context.Context, p conformance.Pair, what string) []conformance.Result {
				if what == misplaced {
					return conformance.WrongStates(ctx, p)
				}
				return conformance.Exceptions(ctx, p, what)
			})),
		},
	}
}

func dataFamilies(run runner) []suite.Family {
	networks := map[bool][]string{}
	byName := map[string]conformance.Faulty{}
	for _, f := range conformance.FaultyNetworks() {
		networks[f.Damages] = append(networks[f.Damages], f.Name)
		byName[f.Name] = f
	}
	stream := run(func(ctx context.Context, s *stage) ([]conformance.Result, error) {
		return []conformance.Result{conformance.Stream(ctx, s.open, byName[s.cell.Get("what")], turns)}, nil
	})
	family := func(name string, loose suite.Loose, values []string) suite.Family {
		return suite.Family{
			Name: name, About: "SEND, WRITE and READ through a network with faults at our port, verified, with the share of the undisturbed rate", Loose: loose,
			Dims:  []matrix.Dim{{Name: "what", Values: values}, matrix.Direction(), matrix.IP(), matrix.MTU(), matrix.Transport()},
			Short: first, Cost: 3 * time.Second, Limit: 5 * time.Minute, Tries: tries, Faulty: true, Run: stream,
		}
	}
	return []suite.Family{
		family("data", 0, networks[false]),
		family("damaged", suite.Damaging, networks[true]),
		{
			Name: "soak", About: fmt.Sprintf("%d messages of every kind, both directions at once, through every fault", soaked), Loose: suite.Damaging, Faulty: true,
			Dims: []matrix.Dim{matrix.IP()}, Always: true, Cost: 50 * time.Second, Limit: 20 * time.Minute,
			Run: run(func(ctx context.Context, s *stage) ([]conformance.Result, error) {
				return []conformance.Result{conformance.Soak(ctx, s.open, conformance.Soaking{Messages: soaked, Seed: seed})}, nil
			}),
		},
	}
}

// outcome returns a case's outcome from its results.
func outcome(l *lab.Lab, results []conformance.Result) suite.Outcome {
	var failed, known, notes, measured []string
	for _, r := range results {
		if r.Measured != "" {
			measured = append(measured, r.Measured)
		}
		switch r.Verdict {
		case conformance.Fail:
			failed = append(failed, r.Name+": "+r.Note)
			for _, d := range r.Details {
				l.Log("%s: %s", r.Name, d)
			}
		case conformance.Expected:
			if !slices.Contains(known, r.Note) {
				known = append(known, r.Note)
			}
		case conformance.Pass:
			if r.Note != "" && !slices.Contains(notes, r.Note) {
				notes = append(notes, r.Note)
			}
		}
	}
	if len(results) > 1 {
		notes = append([]string{fmt.Sprintf("%d results", len(results))}, notes...)
	}
	switch {
	case len(results) == 0:
		return suite.Failed("nothing was played")
	case len(failed) > 0:
		return suite.Failed("%d of %d: %s", len(failed), len(results), strings.Join(failed, "; "))
	case len(known) > 0:
		return suite.Differs("%s", strings.Join(known, "; ")).With("%s", strings.Join(measured, "; "))
	default:
		return suite.Passed(strings.Join(notes, "; ")).With("%s", strings.Join(measured, "; "))
	}
}
