package conformance

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/testagent"
	"github.com/softhca/softhca/interop/ends"
)

// steps carries out the steps of a case on its stand. After the first error, which err keeps, each
// further step does nothing and returns zero values, and nothing more is judged.
type steps struct {
	*stand
	*judge
	ctx context.Context
	err error
}

// begin builds the objects of a plan.
func (p Pair) begin(ctx context.Context, pl plan) *steps {
	t := &steps{judge: &judge{}, ctx: ctx}
	t.stand, t.err = p.build(ctx, pl)
	return t
}

// play plays a case on the objects of a plan.
func (p Pair) play(ctx context.Context, name string, pl plan, f func(t *steps)) Result {
	t := p.begin(ctx, pl)
	if t.err == nil {
		f(t)
	}
	return p.evidence(t.result(name, t.err))
}

// do takes a step.
func (t *steps) do(step func() error) {
	if t.err == nil {
		t.err = step()
	}
}

// take takes a step that has a result.
func take[T any](t *steps, step func() (T, error)) (result T) {
	if t.err == nil {
		result, t.err = step()
	}
	return result
}

func (t *steps) wrong(format string, args ...any) {
	if t.err == nil {
		t.judge.wrong(format, args...)
	}
}

func (t *steps) expect(ok bool, format string, args ...any) {
	if !ok {
		t.wrong(format, args...)
	}
}

// post posts requests at the requester.
func (t *steps) post(wrs ...ends.Send) {
	t.do(func() error { return t.req.PostSend(t.ctx, wrs...) })
}

// receive posts receives at the responder.
func (t *steps) receive(wrs ...ends.Recv) {
	t.do(func() error { return t.resp.PostRecv(t.ctx, wrs...) })
}

// modify modifies a queue pair.
func (t *steps) modify(qp ends.QP, attr ib.QPAttr, mask ib.AttrMask) {
	t.do(func() error { return qp.Modify(t.ctx, &attr, mask) })
}

// query returns the attributes of a queue pair.
func (t *steps) query(qp ends.QP) ib.QPAttr {
	return take(t, func() (ib.QPAttr, error) { return qp.Query(t.ctx) })
}

// poll takes n completions of an end, or fewer if the time runs out.
func (t *steps) poll(e ends.End, n int, wait time.Duration) []ib.WC {
	return take(t, func() ([]ib.WC, error) { return e.Poll(t.ctx, n, wait) })
}

// succeeded takes n completions of an end, all of which must be successes.
func (t *steps) succeeded(e ends.End, n int) []ib.WC {
	wcs := t.poll(e, n, caseTime)
	t.do(func() error {
		switch {
		case len(wcs) != n:
			return fmt.Errorf("%s has %d completions of %d: %v", e.Name(), len(wcs), n, statuses(wcs))
		case slices.ContainsFunc(wcs, func(w ib.WC) bool { return w.Status != ib.WCSuccess }):
			return fmt.Errorf("%s completed with %v", e.Name(), statuses(wcs))
		}
		return nil
	})
	if t.err != nil {
		return make([]ib.WC, n)
	}
	return wcs
}

// sent and got take n successes of the requester, and of the responder.
func (t *steps) sent(n int) []ib.WC { return t.succeeded(t.Requester, n) }
func (t *steps) got(n int) []ib.WC  { return t.succeeded(t.Responder, n) }

// none checks that an end has no completion left.
func (t *steps) none(e ends.End) {
	wcs := t.poll(e, 1, 0)
	t.expect(len(wcs) == 0, "%s has a completion too many: %+v", e.Name(), wcs)
}

// events checks the asynchronous events of an end.
func (t *steps) events(e ends.End, want ...ib.EventType) {
	wait := time.Duration(0)
	if len(want) > 0 {
		wait = caseTime
	}
	var seen []ib.EventType
	t.do(func() error {
		for len(seen) < max(len(want), 1) {
			events, err := e.Events(t.ctx, wait)
			if err != nil || len(events) == 0 {
				return err
			}
			seen = append(seen, events...)
		}
		return nil
	})
	t.expect(slices.Equal(seen, want), "the events at %s are %v, not %v", e.Name(), seen, want)
}

// until waits until there is what is asked for.
func (t *steps) until(what string, there func() (bool, error)) {
	t.do(func() error {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(caseTime); time.Now().Before(end); {
			if ok, err := there(); ok || err != nil {
				return err
			}
			select {
			case <-tick.C:
			case <-t.ctx.Done():
				return context.Cause(t.ctx)
			}
		}
		return fmt.Errorf("%s did not come in %v", what, caseTime)
	})
}

// fill writes a pattern into a region.
func (t *steps) fill(m ends.Memory, s testagent.Span) {
	t.do(func() error { return m.Fill(t.ctx, s) })
}

// verify checks that a region has a pattern. what says which bytes it is.
func (t *steps) verify(m ends.Memory, s testagent.Span, what string, args ...any) {
	mm := take(t, func() (testagent.Mismatch, error) { return m.Verify(t.ctx, s) })
	t.expect(mm.Bytes == 0, "%s: %d of %d bytes are wrong, the first at %d: %#02x instead of %#02x",
		fmt.Sprintf(what, args...), mm.Bytes, s.Len, mm.First, mm.Got, mm.Want)
}

// guards checks that nothing was written around regions.
func (t *steps) guards(ms ...ends.Memory) {
	for _, m := range ms {
		changed := take(t, func() (uint64, error) { return m.Guard(t.ctx) })
		t.expect(changed == 0, "%d bytes outside of the region were written", changed)
	}
}

// word reads 8 bytes of a region as the host of the region has them: little endian, as on every
// machine that runs these tests.
func (t *steps) word(m ends.Memory, off uint64) uint64 {
	b := take(t, func() ([]byte, error) { return m.Read(t.ctx, off, 8) })
	if t.err != nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}
