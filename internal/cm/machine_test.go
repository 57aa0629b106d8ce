package cm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/golden"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
)

// TestC6_EveryCellHasAnOutcome lists every input in every state.
func TestC6_EveryCellHasAnOutcome(t *testing.T) {
	var b strings.Builder
	b.WriteString("# What each input does in each state of the machine, and below it in each sub-state of ESTABLISHED.\n" +
		"# The columns: state, input, action, next state, event that the consumer hears. In place of the last\n" +
		"# three: why nothing happens.\n")
	state, cells := "", 0
	Walk(func(r Row) {
		if r.State != state {
			state = r.State
			fmt.Fprintf(&b, "\n# %s (%s): %s\n", r.State, r.Side, r.Meaning)
		}
		cells++
		action := r.Action
		if r.Duplicate {
			action += " (a repetition)"
		}
		line := fmt.Sprintf("%-13s %-22s %s", r.State, r.Input, "- "+string(r.Outcome))
		if r.Outcome == Done {
			line = fmt.Sprintf("%-13s %-22s %-60s %-13s %s", r.State, r.Input, action, r.Next, r.Event)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	})
	golden.Check(t, "testdata/machine.golden", b.String())
	if want := int(numStates)*int(numInputs) + int(numLAPStates)*8; cells != want {
		t.Errorf("%d cells, want %d", cells, want)
	}
}

// sends maps actions to the messages that they send, as kindText does. The
// message of again depends on the state.
var sends = map[Action]string{
	sendREQ: "REQ", sendREP: "REP", resendREP: "REP", sendRTU: "RTU", resendRTU: "RTU", sendMRA: "MRA", answerMRA: "MRA",
	sendREJ: "REJ: consumer reject", rejectTimeout: "REJ: timeout", rejectConsumer: "REJ: consumer reject",
	rejectStale: "REJ: stale connection", rejectUnknownID: "REJ: invalid communication id", rejectService: "REJ: invalid service id",
	sendDREQ: "DREQ", sendDREP: "DREP", resendDREP: "DREP", answerDREP: "DREP",
	sendSIDRREQ: "SIDR_REQ", sendSIDRREP: "SIDR_REP: valid", rejectSIDR: "SIDR_REP: rejected",
	unknownSIDR: "SIDR_REP: unsupported service id",
}

var lapSends = map[lapAction]string{lapSend: "LAP", lapAnswer: "APR", lapMRA: "MRA", lapAgainMRA: "MRA", lapRetransmit: "LAP"}

// TestC6_EveryCellIsTrue brings a real connection into each state, on each
// possible side, gives it each input and compares all effects with the cell in
// the golden file.
func TestC6_EveryCellIsTrue(t *testing.T) {
	for s := range numStates {
		for on := range numInputs {
			if s == Established && machine[s][on].do == lap {
				continue
			}
			for _, side := range sidesOf(stateWords[s].side) {
				t.Run(fmt.Sprintf("%v/%v/%v", s, on, side), func(t *testing.T) {
					want := sends[machine[s][on].do]
					c, r := reach(t, s, side)
					switch machine[s][on].do {
					case retransmit:
						want = waitsFor(c).String()
					case resendRTU:
						if side == Passive { // it never sent one
							want = ""
						}
					}
					checkCell(r, c, on, describe(s, on), want)
				})
			}
		}
	}
}

func TestC6_C10_EveryLAPCellIsTrue(t *testing.T) {
	for s := range numLAPStates {
		for on := range numInputs {
			if machine[Established][on].do != lap {
				continue
			}
			t.Run(fmt.Sprintf("%v/%v", s, on), func(t *testing.T) {
				r := newRig(t)
				r.listen()
				var c *Conn
				if on == CallLAP && s == LAPIdle { // only the active side may
					c = r.active(Established)
				} else {
					c = r.loading(s)
				}
				checkCell(r, c, on, describeLAP(s, on), lapSends[lapMachine[s][on].do])
			})
		}
	}
}

func sidesOf(side string) []Role {
	switch side {
	case active:
		return []Role{Active}
	case passive:
		return []Role{Passive}
	default:
		return []Role{Active, Passive}
	}
}

// reach returns a connection in a state, nil for states that are not of a
// connection, and its rig, whose records are cleared.
func reach(t *testing.T, s State, side Role) (*Conn, *rig) {
	r := newRig(t)
	var c *Conn
	switch {
	case s == Unknown:
	case s == Listen:
		r.listen()
	case s == Idle && side == Passive: // used before
		r.listen()
		c = r.passive(Timewait)
		r.quiet()
	case side == Passive:
		r.listen()
		c = r.passive(s)
	default:
		c = r.active(s)
	}
	if c != nil {
		r.wantState(c, s)
	}
	return c, r
}

// position returns the state of the machine that a row is about.
func position(r *rig, c *Conn, row Row) string {
	switch {
	case c == nil && len(r.m.listeners) > 0:
		return Listen.String()
	case c == nil && row.State == Listen.String():
		return Idle.String()
	case c == nil:
		return Unknown.String()
	case strings.HasPrefix(row.State, "LAP"):
		return c.lap.String()
	default:
		return c.state.String()
	}
}

func checkCell(r *rig, c *Conn, on Input, row Row, sent string) {
	t := r.t
	t.Helper()
	if on == TimerExhausted && row.Outcome == Done {
		for c.retry.left > 0 {
			r.fire()
		}
		c.allowance.earn() // as a repeated REQ does
	}
	if row.Outcome == Impossible {
		checkImpossible(r, c, on, row)
		return
	}
	r.clear()
	before := r.m.Counters()
	err := give(r, c, on)
	after := r.m.Counters()
	var events []EventType
	wantSent, wantErr, next, dropped, repeated := []string(nil), error(nil), row.State, 0, 0
	switch row.Outcome {
	case RefusedState:
		wantErr = ib.EINVAL
	case RefusedAgain:
		wantErr = ib.EISCONN
	case Dropped:
		dropped = 1
	default:
		next = row.Next
		if i := slices.Index(eventNames[:], row.Event); i > 0 {
			events = []EventType{EventType(i)}
		}
		if sent != "" {
			wantSent = []string{sent}
		}
		if row.Duplicate {
			repeated = 1
		}
	}
	r.wantEvents("the cell", events...)
	r.wantSent("the cell", wantSent...)
	if !errors.Is(err, wantErr) || wantErr == nil && err != nil {
		t.Errorf("error %v, want %v", err, wantErr)
	}
	if got := position(r, c, row); got != next {
		t.Errorf("next state %s, want %s", got, next)
	}
	drops := after.Unexpected[on] - before.Unexpected[on] + after.Unmatched - before.Unmatched
	if drops != uint64(dropped) || after.Duplicates[on]-before.Duplicates[on] != uint64(repeated) {
		t.Errorf("counted %d dropped and %d repeated, want %d and %d", drops, after.Duplicates[on]-before.Duplicates[on], dropped, repeated)
	}
	must.Do(t, invariants(r.m))
}

// checkImpossible checks that there is no such timer or call, or that the
// message goes elsewhere.
func checkImpossible(r *rig, c *Conn, on Input, row Row) {
	t := r.t
	t.Helper()
	switch {
	case on >= firstTimer && c != nil && c.timer.At() != clock.Never:
		// Another timer is running.
		if (c.state == Timewait) == (on == TimerTimewait) {
			t.Errorf("a timer runs in %s, and %v fires", row.State, on)
		}
	case on >= firstTimer:
		if at := r.m.Deadline(); at.Sub(r.now) < 0 {
			t.Errorf("a timer is due")
		}
	case on < firstMsg:
		if c != nil {
			t.Errorf("there is a connection whose %v can be called", on)
		}
	case c != nil:
		r.clear()
		before, was := r.m.Counters(), position(r, c, row)
		_ = give(r, c, on)
		after := r.m.Counters()
		if position(r, c, row) != was || after.Unexpected[on] != before.Unexpected[on] || after.Duplicates[on] != before.Duplicates[on] {
			t.Errorf("the message found its connection, which is now in %s", position(r, c, row))
		}
	}
}

// give gives an input: a connection's, if there is one.
func give(r *rig, c *Conn, on Input) error {
	switch {
	case on < firstMsg && c == nil:
		r.m.listeners[service].Close()
	case on < firstMsg:
		return call(r, c, on)
	case on < firstTimer:
		if c == nil {
			c = &Conn{localID: 0x5555_5555} // the ID of no connection
		}
		tell(r, c, on)
	default:
		r.fire()
	}
	return nil
}

func call(r *rig, c *Conn, on Input) error {
	path := r.path()
	switch on {
	case CallREQ:
		return c.SendREQ(r.now, r.reqParams())
	case CallREP:
		return c.SendREP(r.now, r.repParams())
	case CallRTU:
		return c.SendRTU(r.now, nil)
	case CallREJ:
		return c.SendREJ(r.now, &REJParams{Reason: mad.RejConsumer})
	case CallMRA:
		return c.SendMRA(r.now, 20, nil)
	case CallMRALater:
		return c.PrepareMRA(r.now, 20, nil)
	case CallEstablish:
		return c.Establish(r.now)
	case CallDREQ:
		return c.SendDREQ(r.now, nil)
	case CallDREP:
		return c.SendDREP(r.now, nil)
	case CallLAP:
		return c.SendLAP(r.now, &path, nil)
	case CallAPR:
		return c.SendAPR(r.now, &APRParams{Status: mad.APRAccepted})
	case CallSIDRREQ:
		return c.SendSIDRREQ(r.now, &SIDRREQParams{Service: service, Path: path})
	case CallSIDRREP:
		return c.SendSIDRREP(r.now, &SIDRREPParams{Status: mad.SIDRValid, QPN: rigQPN, QKey: 1})
	default:
		c.Destroy(r.now)
		return nil
	}
}

// tell sends a connection a message of its peer.
func tell(r *rig, c *Conn, on Input) {
	about := mad.WhichOther
	if c.state == ReqSent || c.state == MRAReqRcvd || c.state == SIDRReqSent {
		about = mad.WhichREQ
	}
	switch on {
	case MsgREQ:
		r.receive(mad.AttrREQ, r.req())
	case MsgMRAREQ, MsgMRAREP, MsgMRAOther:
		r.receive(mad.AttrMRA, r.mra(c, mad.Which(on-MsgMRAREQ)))
	case MsgREJ:
		r.receive(mad.AttrREJ, r.rej(c, about, mad.RejConsumer))
	case MsgREJStale:
		r.receive(mad.AttrREJ, r.rej(c, about, mad.RejStaleConnection))
	case MsgREP:
		r.receive(mad.AttrREP, r.rep(c))
	case MsgRTU:
		r.receive(mad.AttrRTU, &mad.RTU{LocalCommID: peerID, RemoteCommID: c.localID})
	case MsgDREQ:
		r.receive(mad.AttrDREQ, r.dreq(c))
	case MsgDREP:
		r.receive(mad.AttrDREP, &mad.DREP{LocalCommID: peerID, RemoteCommID: c.localID})
	case MsgLAP:
		r.receive(mad.AttrLAP, r.lap(c))
	case MsgAPR:
		r.receive(mad.AttrAPR, &mad.APR{LocalCommID: peerID, RemoteCommID: c.localID})
	case MsgSIDRREQ:
		r.receive(mad.AttrSIDRREQ, r.sidrReq())
	case MsgSIDRREP:
		r.receive(mad.AttrSIDRREP, &mad.SIDRREP{RequestID: c.localID})
	}
}
