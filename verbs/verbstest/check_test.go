package verbstest_test

import (
	"fmt"
	"runtime"
	"slices"
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

// TestReportedBeforeTheCallReturns makes calls that show a bug, and looks for its finding after each.
func TestReportedBeforeTheCallReturns(t *testing.T) {
	r := newRig(t)
	r.open(settings{})
	q := r.a.newQP(r, r.a.pd)
	domain := func() *verbs.PD {
		pd, err := r.a.ctx.AllocPD()
		must.Do(t, err)
		return pd
	}
	gone, used := domain(), domain()
	other, err := used.RegMR(make([]byte, 64), verbs.AccessLocalWrite)
	must.Do(t, err)
	srq, err := used.CreateSRQ(&verbs.SRQInitAttr{MaxWR: depth, MaxSGE: 1})
	must.Do(t, err)
	must.Do(t, gone.Dealloc())
	must.Do(t, q.Destroy())
	wrong := r.receive(0, 8)
	wrong.SGList[0].LKey = 0x1234
	send := r.send(64)
	send.SGList[0] = other.SGE(0, 64)
	r.fails(true)
	for _, c := range []struct {
		finds string
		call  func() error
	}{
		{"remote-access-error", func() error { _, err := r.a.cq.Poll(make([]verbs.WC, 1)); return err }},
		{"posted-after-error region-of-another-domain", func() error { return r.a.qp.PostSend(send) }},
		{"key-unknown", func() error { return r.b.qp.PostRecv(wrong) }},
		{"key-unknown", func() error { return srq.PostRecv(wrong) }},
		{"used-after-destroy", func() error { _, err := q.Query(); return err }},
		{"used-after-destroy", func() error { return q.Modify(&verbs.QPAttr{State: verbs.ERR}, verbs.AttrState) }},
		{"used-after-destroy", func() error { _, err := gone.AllocMW(verbs.MWType1); return err }},
		{"used-after-destroy", func() error { _, err := gone.CreateAH(verbs.AHAttr{}); return err }},
		{"destroy-refused", used.Dealloc},
	} {
		r.found = nil
		err := c.call()
		// The peer's adapter reports its refusal at any time.
		r.found = slices.DeleteFunc(r.found, func(f *verbs.Finding) bool { return f.Name == "peer-access-refused" })
		if have := r.findings(); have != c.finds {
			t.Errorf("found %q after a call that returns %v: want %q", have, err, c.finds)
		}
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
