package conformance

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/interop/ends"
	"github.com/softhca/softhca/roce"
)

// quiet is how long a case waits to see that nothing comes.
const quiet = 300 * time.Millisecond

// Exceptions plays the named exceptions of the table between two ends, or all
// without names.
func Exceptions(ctx context.Context, p Pair, names ...string) (all []Result) {
	list := exceptions()
	for i := range list {
		if len(names) > 0 && !slices.Contains(names, list[i].name) {
			continue
		}
		if ctx.Err() != nil {
			return all
		}
		all = append(all, p.provoke(ctx, &list[i]))
	}
	return all
}

// provoke plays one exception.
func (p Pair) provoke(ctx context.Context, x *exception) Result {
	pl := p.plan(x.typ)
	if x.adapt != nil {
		x.adapt(&pl)
	}
	j := &judge{}
	s, _, err := p.build(ctx, pl)
	if err == nil {
		err = s.play(ctx, j, x)
	}
	r := j.result(x.typ.String()+" "+x.name, err)
	if r.Verdict == Pass && isOurs(p.Responder) && (x.ours != nil || x.taking != nil && !isOurs(p.Requester)) {
		r.Note = "on purpose: " + x.why
	}
	return p.evidence(r)
}

// newer reports whether one of the ends is a peer of Linux 6.12 or later.
func (p Pair) newer() bool {
	return slices.ContainsFunc([]ends.End{p.Requester, p.Responder}, func(e ends.End) bool { return kernelAtLeast(e.Name(), 6, 12) })
}

// kernelAtLeast reads the release of the kernel at the end of a peer's name.
func kernelAtLeast(name string, major, minor int) bool {
	m := regexp.MustCompile(` (\d+)\.(\d+)\S*$`).FindStringSubmatch(name)
	if m == nil {
		return false
	}
	a, _ := strconv.Atoi(m[1])
	b, _ := strconv.Atoi(m[2])
	return a > major || a == major && b >= minor
}

func (s *stand) play(ctx context.Context, j *judge, x *exception) error {
	want := x.expected(isOurs(s.Requester), isOurs(s.Responder), s.newer())
	if !x.late {
		if err := s.receives(ctx, x); err != nil {
			return err
		}
	}
	if x.destroyed {
		if err := s.resp.Destroy(ctx); err != nil {
			return err
		}
	}
	wr := x.post(s)
	wr.WRID, wr.Flags = 1, wr.Flags|ib.SendSignaled
	err := s.req.PostSend(ctx, wr)
	switch {
	case want.asker.refused != 0:
		j.expect(errors.Is(err, want.asker.refused), "the post returned %v, not %v", err, want.asker.refused)
	case err != nil:
		return err
	}
	if !x.alone {
		if err := s.req.PostSend(ctx, ends.Send{WRID: 100, Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: []ends.SGE{{Memory: s.local, Length: 8}}, RemoteAddr: s.far.Addr(), RKey: s.far.RKey()}); err != nil {
			return err
		}
	}
	if x.late {
		if err := s.untilRNR(ctx); err != nil {
			return err
		}
		if err := s.receives(ctx, x); err != nil {
			return err
		}
	}
	if err := s.checkAsker(ctx, j, want.asker); err != nil {
		return err
	}
	return s.checkAnswer(ctx, j, x, want.answer)
}

// receives posts the responder's receives. In RESET there are none.
func (s *stand) receives(ctx context.Context, x *exception) error {
	for i, r := range x.receives {
		wr := ends.Recv{WRID: uint64(i)}
		if n := r.n + r.mtus*uint32(s.MTU.Bytes()); n > 0 {
			sge := ends.SGE{Memory: s.far, Off: uint64(i) << 16, Length: n}
			if r.badLKey {
				sge.LKey = badKey
			}
			wr.SGList = []ends.SGE{sge}
		}
		if err := s.resp.PostRecv(ctx, wr); err != nil {
			return fmt.Errorf("post a receive at %s: %w", s.Responder.Name(), err)
		}
	}
	return nil
}

// wire returns the NAKs that our side saw.
func (s *stand) wire() []ends.NAK {
	for _, e := range []ends.End{s.Requester, s.Responder} {
		if o, ok := e.(*ends.Ours); ok {
			return o.NAKs()
		}
	}
	return nil
}

// untilRNR waits until an RNR NAK was on the wire.
func (s *stand) untilRNR(ctx context.Context) error {
	return until(ctx, "an RNR NAK", func() (bool, error) {
		return slices.ContainsFunc(s.wire(), func(n ends.NAK) bool { return n.Syndrome.IsRNR() }), nil
	})
}

// until waits until there is what is asked for.
func until(ctx context.Context, what string, there func() (bool, error)) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if ok, err := there(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return fmt.Errorf("%s did not come in %v", what, patience)
}

func (s *stand) checkAsker(ctx context.Context, j *judge, want asker) error {
	wcs, err := s.Requester.Poll(ctx, len(want.statuses), patience)
	if err != nil {
		return err
	}
	j.expect(slices.Equal(statuses(wcs), want.statuses), "the requester completed with %v, not %v", statuses(wcs), want.statuses)
	if err := none(ctx, j, s.Requester); err != nil {
		return err
	}
	attr, err := s.req.Query(ctx)
	if err != nil {
		return err
	}
	j.expect(attr.State == want.state, "the requester is in %s, not in %s", attr.State, want.state)
	return checkEvents(ctx, j, s.Requester, nil) // the completion has reported the error
}

// checkEvents takes the asynchronous events of an end.
func checkEvents(ctx context.Context, j *judge, e ends.End, want []ib.EventType) error {
	var seen []ib.EventType
	for len(seen) < max(len(want), 1) {
		events, err := e.Events(ctx, waitFor(len(want) > 0, patience))
		if err != nil {
			return err
		}
		if len(events) == 0 {
			break
		}
		for _, e := range events {
			seen = append(seen, e.Type)
		}
	}
	j.expect(slices.Equal(seen, want), "the events at %s are %v, not %v", e.Name(), seen, want)
	return nil
}

func (s *stand) checkAnswer(ctx context.Context, j *judge, x *exception, want answer) error {
	wait := patience
	if len(want.statuses) == 0 {
		wait = waitFor(len(x.receives) > 0, quiet)
	}
	wcs, err := s.Responder.Poll(ctx, max(len(want.statuses), 1), wait)
	if err != nil {
		return err
	}
	j.expect(slices.Equal(statuses(wcs), want.statuses), "the responder's receives completed with %v, not %v", statuses(wcs), want.statuses)
	if err := none(ctx, j, s.Responder); err != nil {
		return err
	}
	if !x.destroyed {
		attr, err := s.resp.Query(ctx)
		if err != nil {
			return err
		}
		j.expect(attr.State == want.state, "the responder is in %s, not in %s", attr.State, want.state)
	}
	if err := checkEvents(ctx, j, s.Responder, want.events); err != nil {
		return err
	}
	s.checkWire(j, x, want)
	return nil
}

// waitFor returns how long to wait for something that should come, or should
// not.
func waitFor(shall bool, long time.Duration) time.Duration {
	if shall {
		return long
	}
	return 0
}

// checkWire compares the NAKs with the expected ones.
func (s *stand) checkWire(j *judge, x *exception, want answer) {
	var fatal, sequence []ends.NAK
	rnr := false
	for _, n := range s.wire() {
		switch {
		case n.Sent != isOurs(s.Responder) && isOurs(s.Requester) != isOurs(s.Responder):
			j.wrong("a NAK went the wrong way: %+v", n)
		case n.Syndrome.IsRNR():
			rnr = true
		case n.Syndrome == roce.NAKSequence:
			sequence = append(sequence, n)
		default:
			fatal = append(fatal, n)
		}
	}
	j.expect(rnr == want.rnr, "RNR NAKs were seen: %v", rnr)
	seen := fatal
	if want.nak == roce.NAKSequence {
		seen = sequence
		j.expect(len(fatal) == 0, "a NAK ended the connection: %v", fatal)
	}
	if want.nak == 0 {
		j.expect(len(seen) == 0, "a NAK ended the connection: %v", fatal)
		return
	}
	if len(seen) == 0 {
		j.wrong("no %s was on the wire", want.nak)
		return
	}
	first := ends.Defaults(s.MTU).RequesterPSN.Add(want.at)
	j.expect(seen[0].Syndrome == want.nak, "the NAK is %s, not %s", seen[0].Syndrome, want.nak)
	j.expect(seen[0].PSN == first, "the NAK's PSN is %s, not %s", seen[0].PSN, first)
}
