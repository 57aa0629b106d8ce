package verbstest_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
	"github.com/softhca/softhca/verbs/verbstest"
)

// tester is a test that only notes what happens to it.
type tester struct {
	testing.TB
	errors, logs []string
	cleanups     []func()
}

func (t *tester) Errorf(format string, args ...any) {
	t.errors = append(t.errors, fmt.Sprintf(format, args...))
}
func (t *tester) Logf(format string, args ...any) {
	t.logs = append(t.logs, fmt.Sprintf(format, args...))
}
func (t *tester) Cleanup(f func()) { t.cleanups = append(t.cleanups, f) }

// end ends the test.
func (t *tester) end() {
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.cleanups[i]()
	}
}

// adapter opens an adapter that is checked for a test.
func adapter(t *testing.T, check verbs.Option) *verbs.Context {
	t.Helper()
	ctx, err := verbs.Open(verbs.Config{Network: verbs.NewNetwork(), Addr: "10.0.0.1"}, check)
	must.Do(t, err)
	return ctx
}

// TestCheckFailsTests shows that an error fails a test with the stack and the rule, that advice is logged, and that a
// right test passes.
func TestCheckFailsTests(t *testing.T) {
	var bad, good tester
	for _, fake := range []*tester{&bad, &good} {
		ctx := adapter(t, verbstest.Check(fake))
		pd, err := ctx.AllocPD()
		must.Do(t, err)
		cq, err := ctx.CreateCQ(1, nil)
		must.Do(t, err)
		must.Do(t, cq.Destroy())
		if fake == &bad {
			_, err = ctx.CreateCQ(1, nil)
			must.Do(t, err)
		}
		must.Do(t, pd.Dealloc())
		if fake == &bad {
			if _, err := pd.RegMR(nil, 0); err == nil {
				t.Error("a protection domain is used after it was deallocated")
			}
		}
		must.Do(t, ctx.Close())
		fake.end()
	}
	_, file, _, _ := runtime.Caller(0)
	for _, part := range []string{"error: used-after-destroy", "used here:", "TestCheckFailsTests " + file + ":", "rule: ", "fix: ", "docs/checks.md#used-after-destroy"} {
		if len(bad.errors) != 1 || !strings.Contains(bad.errors[0], part) {
			t.Errorf("the test with the bug has the errors %q: want %q in one", bad.errors, part)
		}
	}
	if len(bad.logs) != 1 || !strings.Contains(bad.logs[0], "objects-left-at-close") {
		t.Errorf("the test with the bug has logged %q: want the advice", bad.logs)
	}
	if len(good.errors)+len(good.logs) > 0 {
		t.Errorf("a right test has the errors %q and has logged %q", good.errors, good.logs)
	}
}

// TestCheckFindsOpenAdapters shows that a test fails that does not close an adapter.
func TestCheckFindsOpenAdapters(t *testing.T) {
	var fake tester
	ctx := adapter(t, verbstest.Check(&fake))
	_, err := ctx.AllocPD()
	must.Do(t, err)
	fake.end()
	if len(fake.errors) != 1 || !strings.Contains(fake.errors[0], "objects-left-at-exit") || !strings.Contains(fake.errors[0], "protection domain") {
		t.Errorf("the test has the errors %q: want objects-left-at-exit, with the protection domain", fake.errors)
	}
	must.Do(t, ctx.Close())
}

// TestReportMayCallTheAdapter calls the adapter from a report. A bug at one place is reported once.
func TestReportMayCallTheAdapter(t *testing.T) {
	var ctx *verbs.Context
	names := map[string]int{}
	ctx = adapter(t, verbs.WithCheck(func(f *verbs.Finding) {
		names[f.Name]++
		pd, err := ctx.AllocPD()
		must.Do(t, err)
		must.Do(t, pd.Dealloc())
	}))
	pd, err := ctx.AllocPD()
	must.Do(t, err)
	must.Do(t, pd.Dealloc())
	for range 2 {
		_, err = pd.RegMR(nil, 0)
		if err == nil {
			t.Error("a region is registered in a protection domain that was deallocated")
		}
	}
	must.Do(t, ctx.Close())
	if names["used-after-destroy"] != 1 || len(names) != 1 {
		t.Errorf("found %v: want used-after-destroy once", names)
	}
}

// TestUncheckedAdapters shows that nothing is said about buffers while an adapter exists whose writes are not known.
func TestUncheckedAdapters(t *testing.T) {
	for _, other := range []bool{true, false} {
		r := newRig(t)
		r.open(settings{})
		if other {
			ctx, err := verbs.Open(verbs.Config{Network: verbs.NewNetwork(), Addr: "10.0.0.3"})
			must.Do(t, err)
			t.Cleanup(func() { _ = ctx.Close() })
			must.Do(t, r.a.qp.PostSend(r.write(64)))
			r.arrives(r.a.cq)
			r.a.mr.Bytes()[0]++
			r.want(r.a.cq, verbs.WCSuccess)
			must.Do(t, ctx.Close())
		}
		must.Do(t, r.a.qp.PostSend(r.write(64)))
		r.arrives(r.a.cq)
		r.a.mr.Bytes()[0]++
		r.want(r.a.cq, verbs.WCSuccess)
		r.close()
		if len(r.found) != 1 {
			t.Errorf("%d findings: want one, about the WRITE while all adapters were checked", len(r.found))
		}
	}
}
