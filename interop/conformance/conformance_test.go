package conformance_test

import (
	"context"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/interop/conformance"
	"github.com/softhca/softhca/interop/ends"
	"github.com/softhca/softhca/verbs"
)

// pair opens two adapters of ours on a network in the process.
func pair(t *testing.T, mtu ib.MTU, rules string) conformance.Pair {
	t.Helper()
	p := open(t, mtu, rules)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func open(t *testing.T, mtu ib.MTU, rules string) conformance.Pair {
	t.Helper()
	network := verbs.NewNetwork()
	var both [2]*ends.Ours
	for i, addr := range []string{"10.0.0.1", "10.0.0.2"} {
		o, err := ends.OpenOurs(verbs.Config{Addr: addr, Network: network, Seed: uint64(i + 1), Faults: verbs.Faults{Rules: rules, Seed: 5}})
		must.Do(t, err)
		both[i] = o
	}
	return conformance.Pair{Requester: both[0], Responder: both[1], MTU: mtu}
}

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func report(t *testing.T, results []conformance.Result) {
	t.Helper()
	for _, r := range results {
		if r.Verdict == conformance.Pass {
			continue
		}
		t.Errorf("%s: %s: %s", r.Name, r.Verdict, r.Note)
		for i, d := range r.Details {
			if i < 30 {
				t.Log(d)
			}
		}
	}
}

// Two of ours do every operation as a peer must: what fails here is the cases'
// own mistake, or the engine's.
func TestOperationsBetweenTwoOfOurs(t *testing.T) {
	for _, mtu := range []ib.MTU{ib.MTU1024, ib.MTU4096} {
		var results []conformance.Result
		for _, group := range conformance.OperationGroups() {
			results = append(results, conformance.Operations(limited(t), pair(t, mtu, ""), group)...)
		}
		if len(results) < 150 {
			t.Errorf("only %d operations", len(results))
		}
		report(t, results)
	}
}

func TestExtensionsBetweenTwoOfOurs(t *testing.T) {
	var results []conformance.Result
	for _, mtu := range []ib.MTU{ib.MTU1024, ib.MTU4096} {
		for _, group := range []string{conformance.Windows, conformance.AtomicWrite, conformance.Flush} {
			results = append(results, conformance.Extensions(limited(t), pair(t, mtu, ""), group)...)
		}
	}
	if len(results) < 30 {
		t.Errorf("only %d cases", len(results))
	}
	report(t, results)
}

// Every row has our own answer: two of ours give it.
func TestExceptionsBetweenTwoOfOurs(t *testing.T) {
	results := conformance.Exceptions(limited(t), pair(t, ib.MTU1024, ""))
	report(t, append(results, conformance.WrongStates(limited(t), pair(t, ib.MTU1024, ""))...))
}

// opened opens two of ours for each network.
func opened(t *testing.T) conformance.Open {
	return func(_ context.Context, rules string) (conformance.Pair, error) {
		return open(t, ib.MTU1024, rules), nil
	}
}

func TestStreamsBetweenTwoOfOurs(t *testing.T) {
	var results []conformance.Result
	for _, f := range conformance.FaultyNetworks() {
		r := conformance.Stream(limited(t), opened(t), f, 3)
		t.Log(r.Name, r.Verdict, r.Measured)
		results = append(results, r)
	}
	report(t, results)
}

func TestSoakBetweenTwoOfOurs(t *testing.T) {
	seen := 0
	r := conformance.Soak(limited(t), opened(t), conformance.Soaking{Messages: 20000, Seed: 1, Progress: func(n int) { seen = n }})
	t.Log(r.Note, r.Measured)
	report(t, []conformance.Result{r})
	if seen < 20000 {
		t.Errorf("only %d messages", seen)
	}
}
