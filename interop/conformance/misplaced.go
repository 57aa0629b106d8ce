package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/interop/ends"
)

// misplaced is posting in a state that refuses or flushes requests, at one end
// only.
type misplaced struct {
	state            ib.QPState
	send, recv       syscall.Errno // 0: accepted
	completesFlushed bool
}

func misplacedPosts() []misplaced {
	return []misplaced{
		{state: ib.RESET, send: syscall.EINVAL, recv: syscall.EINVAL},
		{state: ib.INIT, send: syscall.EINVAL},
		{state: ib.ERR, completesFlushed: true},
	}
}

// WrongStates posts work requests in states that refuse or flush them, at one
// end (the pair's responder; E7, Q19; capture errs_post_wrong_state).
func WrongStates(ctx context.Context, p Pair) (all []Result) {
	for _, m := range misplacedPosts() {
		j := &judge{}
		all = append(all, p.evidence(j.result(fmt.Sprintf("RC post in %s at %s", m.state, strings.Fields(p.Responder.Name())[0]), p.misplace(ctx, j, m))))
	}
	return all
}

func (p Pair) misplace(ctx context.Context, j *judge, m misplaced) error {
	pl := p.plan(ib.RC)
	pl.attr.ResponderState = m.state
	s, _, err := p.build(ctx, pl)
	if err != nil {
		return err
	}
	check := func(what string, err error, want syscall.Errno) {
		j.expect(want == 0 && err == nil || want != 0 && errors.Is(err, want), "posting a %s in %s returned %v", what, m.state, err)
	}
	check("receive", s.resp.PostRecv(ctx, ends.Recv{WRID: 1, SGList: []ends.SGE{{Memory: s.far, Length: 64}}}), m.recv)
	check("send", s.resp.PostSend(ctx, ends.Send{WRID: 2, Opcode: ib.WRSend, Flags: ib.SendSignaled, SGList: []ends.SGE{{Memory: s.far, Length: 8}}}), m.send)
	if !m.completesFlushed {
		return none(ctx, j, s.Responder)
	}
	wait := patience
	if !isOurs(p.Responder) {
		wait = 4 * quiet // rxe may omit one
	}
	wcs, err := s.Responder.Poll(ctx, 2, wait)
	if !isOurs(p.Responder) && slices.Equal(ids(wcs), []uint64{2}) && wcs[0].Status == flushed {
		j.isKnown("rxe leaves a receive that is posted in ERR alone (captures errs_post_wrong_state, errs_peer_error)")
		return err
	}
	j.expect(slices.Equal(statuses(wcs), []ib.WCStatus{flushed, flushed}), "completions %v", statuses(wcs))
	return err
}
