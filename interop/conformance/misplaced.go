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
		pl := p.plan(ib.RC)
		pl.attr.ResponderState = m.state
		name := fmt.Sprintf("RC post in %s at %s", m.state, strings.Fields(p.Responder.Name())[0])
		all = append(all, p.play(ctx, name, pl, func(t *steps) { t.misplace(m) }))
	}
	return all
}

func (t *steps) misplace(m misplaced) {
	check := func(what string, err error, want syscall.Errno) {
		t.expect(want == 0 && err == nil || want != 0 && errors.Is(err, want), "posting a %s in %s returned %v", what, m.state, err)
	}
	check("receive", t.resp.PostRecv(t.ctx, ends.Recv{WRID: 1, SGList: part(t.far, 0, 64)}), m.recv)
	check("send", t.resp.PostSend(t.ctx, ends.Send{WRID: 2, Opcode: ib.WRSend, Flags: ib.SendSignaled, SGList: part(t.far, 0, 8)}), m.send)
	if !m.completesFlushed {
		t.none(t.Responder)
		return
	}
	wait := caseTime
	if !isOurs(t.Responder) {
		wait = 4 * quiet // rxe may omit one
	}
	wcs := t.poll(t.Responder, 2, wait)
	if !isOurs(t.Responder) && slices.Equal(ids(wcs), []uint64{2}) && wcs[0].Status == flushed {
		t.isKnown("rxe leaves a receive that is posted in ERR alone (captures errs_post_wrong_state, errs_peer_error)")
		return
	}
	t.expect(slices.Equal(statuses(wcs), []ib.WCStatus{flushed, flushed}), "completions %v", statuses(wcs))
}
