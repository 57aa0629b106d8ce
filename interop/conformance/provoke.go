package conformance

import (
	"context"
	"errors"
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
	r := p.play(ctx, x.typ.String()+" "+x.name, pl, func(t *steps) { t.provoke(x) })
	if r.Verdict == Pass && isOurs(p.Responder) && (x.ours != nil || x.taking != nil && !isOurs(p.Requester)) {
		r.Note = "on purpose: " + x.why
	}
	return r
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

func (t *steps) provoke(x *exception) {
	want := x.expected(isOurs(t.Requester), isOurs(t.Responder), t.newer())
	if !x.late {
		t.receives(x)
	}
	if x.destroyed {
		t.do(func() error { return t.resp.Destroy(t.ctx) })
	}
	wr := x.post(t.stand)
	wr.WRID, wr.Flags = 1, wr.Flags|ib.SendSignaled
	t.do(func() error {
		err := t.req.PostSend(t.ctx, wr)
		if want.asker.refused == 0 {
			return err
		}
		t.expect(errors.Is(err, want.asker.refused), "the post returned %v, not %v", err, want.asker.refused)
		return nil
	})
	if !x.alone {
		t.post(ends.Send{WRID: 100, Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: part(t.local, 0, 8), RemoteAddr: t.far.Addr(), RKey: t.far.RKey()})
	}
	if x.late {
		t.until("an RNR NAK", func() (bool, error) {
			return slices.ContainsFunc(t.wire(), func(n ends.NAK) bool { return n.Syndrome.IsRNR() }), nil
		})
		t.receives(x)
	}
	t.checkAsker(want.asker)
	t.checkAnswer(x, want.answer)
}

// receives posts the responder's receives. In RESET there are none.
func (t *steps) receives(x *exception) {
	for i, r := range x.receives {
		wr := ends.Recv{WRID: uint64(i)}
		if n := r.n + r.mtus*uint32(t.MTU.Bytes()); n > 0 {
			wr.SGList = part(t.far, uint64(i)<<16, n)
			if r.badLKey {
				wr.SGList[0].LKey = badKey
			}
		}
		t.receive(wr)
	}
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

func (t *steps) checkAsker(want asker) {
	wcs := t.poll(t.Requester, len(want.statuses), caseTime)
	t.expect(slices.Equal(statuses(wcs), want.statuses), "the requester completed with %v, not %v", statuses(wcs), want.statuses)
	t.none(t.Requester)
	attr := t.query(t.req)
	t.expect(attr.State == want.state, "the requester is in %s, not in %s", attr.State, want.state)
	t.events(t.Requester) // none: the completion has reported the error
}

func (t *steps) checkAnswer(x *exception, want answer) {
	wait := caseTime
	switch {
	case len(want.statuses) > 0:
	case len(x.receives) > 0:
		wait = quiet
	default:
		wait = 0
	}
	wcs := t.poll(t.Responder, max(len(want.statuses), 1), wait)
	t.expect(slices.Equal(statuses(wcs), want.statuses), "the responder's receives completed with %v, not %v", statuses(wcs), want.statuses)
	t.none(t.Responder)
	if !x.destroyed {
		attr := t.query(t.resp)
		t.expect(attr.State == want.state, "the responder is in %s, not in %s", attr.State, want.state)
	}
	t.events(t.Responder, want.events...)
	t.checkWire(want)
}

// checkWire compares the NAKs with the expected ones.
func (t *steps) checkWire(want answer) {
	var fatal, sequence []ends.NAK
	rnr := false
	for _, n := range t.wire() {
		switch {
		case n.Sent != isOurs(t.Responder) && isOurs(t.Requester) != isOurs(t.Responder):
			t.wrong("a NAK went the wrong way: %+v", n)
		case n.Syndrome.IsRNR():
			rnr = true
		case n.Syndrome == roce.NAKSequence:
			sequence = append(sequence, n)
		default:
			fatal = append(fatal, n)
		}
	}
	t.expect(rnr == want.rnr, "RNR NAKs were seen: %v", rnr)
	seen := fatal
	if want.nak == roce.NAKSequence {
		seen = sequence
		t.expect(len(fatal) == 0, "a NAK ended the connection: %v", fatal)
	}
	if want.nak == 0 {
		t.expect(len(seen) == 0, "a NAK ended the connection: %v", fatal)
		return
	}
	if len(seen) == 0 {
		t.wrong("no %s was on the wire", want.nak)
		return
	}
	first := ends.Defaults(t.MTU).RequesterPSN.Add(want.at)
	t.expect(seen[0].Syndrome == want.nak, "the NAK is %s, not %s", seen[0].Syndrome, want.nak)
	t.expect(seen[0].PSN == first, "the NAK's PSN is %s, not %s", seen[0].PSN, first)
}
