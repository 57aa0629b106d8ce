package cm

import (
	"testing"

	"github.com/softhca/softhca/mad"
)

// TestC6_TableIsSound: properties that every machine of this kind has.
func TestC6_TableIsSound(t *testing.T) {
	seen := map[State]map[Input]bool{}
	for _, r := range rows() {
		for _, s := range r.in {
			if seen[s] == nil {
				seen[s] = map[Input]bool{}
			}
			if seen[s][r.on] {
				t.Errorf("two rows for %v in %v", r.on, s)
			}
			seen[s][r.on] = true
		}
	}
	for s := range numStates {
		if s != Unknown && !machine[s][CallDestroy].defined {
			t.Errorf("%v cannot be destroyed", s)
		}
		if machine[s][TimerRetransmit].defined != machine[s][TimerExhausted].defined {
			t.Errorf("%v repeats without end, or ends without repeating", s)
		}
		for on := range numInputs {
			e := machine[s][on]
			ends := e.next == Idle || e.next == Timewait || e.next == DReqRcvd
			switch {
			case !e.defined:
			case on < firstMsg && e.raise != NoEvent && on != CallEstablish:
				t.Errorf("%v in %v tells the consumer what it did itself", on, s)
			case on >= firstMsg && ends && e.next != s && e.raise == NoEvent:
				t.Errorf("%v in %v ends it and the consumer does not hear", on, s)
			case e.duplicate && (e.next != s || e.raise != NoEvent):
				t.Errorf("%v in %v is a repetition and changes something", on, s)
			}
		}
	}
}

// TestC6_EveryStateIsReached: from Idle, or from a listener, each state can be
// reached, and from each the end.
func TestC6_EveryStateIsReached(t *testing.T) {
	reached := map[State]bool{Idle: true, Listen: true, ReqRcvd: true, SIDRReqRcvd: true, Unknown: true}
	for again := true; again; {
		again = false
		for s := range numStates {
			for on := range numInputs {
				if e := machine[s][on]; reached[s] && e.defined && !reached[e.next] {
					reached[e.next], again = true, true
				}
			}
		}
	}
	ends := map[State]bool{Idle: true, Unknown: true}
	for again := true; again; {
		again = false
		for s := range numStates {
			for on := range numInputs {
				if e := machine[s][on]; e.defined && ends[e.next] && !ends[s] {
					ends[s], again = true, true
				}
			}
		}
	}
	for s := range numStates {
		if !reached[s] || !ends[s] {
			t.Errorf("%v: reached %v, ends %v", s, reached[s], ends[s])
		}
	}
}

// TestNames: all printed values have names, and invalid values print as such.
func TestNames(t *testing.T) {
	unique := map[string]bool{}
	name := func(s string) {
		t.Helper()
		if s == "" || unique[s] {
			t.Errorf("%q is a name of nothing, or of two", s)
		}
		unique[s] = true
	}
	for s := range numStates {
		name(s.String())
		if stateWords[s].meaning == "" {
			t.Errorf("%v has no meaning", s)
		}
	}
	for s := range numLAPStates {
		name(s.String())
	}
	for s := range numChannelStates {
		name(s.String())
	}
	for i := range numChannelInputs {
		name("channel input " + i.String())
	}
	for a := range numChannelActions {
		name("channel action " + a.String())
	}
	for i := range numInputs {
		name("input " + i.String())
	}
	for e := REQError; e < numEvents; e++ {
		name("event " + e.String())
	}
	for a := range numActions {
		if a.String() == "" {
			t.Errorf("action %d has no words", a)
		}
	}
	for a := range numLAPActions {
		if a.String() == "" {
			t.Errorf("LAP action %d has no words", a)
		}
	}
	for i := range numKinds {
		name("kind " + KindName(i))
	}
	if KindName(int(mad.AttrDREP-mad.AttrREQ)) != "DREP" || Active.String() != "active" || Passive.String() != "passive" {
		t.Error("names are mixed up")
	}
	for _, s := range []string{
		numStates.String(), numLAPStates.String(), numInputs.String(), numEvents.String(), numActions.String(), numLAPActions.String(),
		numChannelStates.String(), numChannelInputs.String(), numChannelActions.String(),
	} {
		if len(s) < 8 || s[:8] != "invalid " {
			t.Errorf("what does not exist is called %q", s)
		}
	}
}

// TestC6_SetHandler: events go to the handler that was set last.
func TestC6_SetHandler(t *testing.T) {
	r := newRig(t)
	r.listen()
	c := r.passive(RepSent)
	r.clear()
	other := newRig(t)
	c.SetHandler(other.onEvent)
	tell(r, c, MsgRTU)
	r.wantEvents("the old handler")
	other.wantEvents("the new handler", RTUReceived)
	c.SetHandler(nil)
	tell(r, c, MsgDREQ)
	r.wantState(c, DReqRcvd)
}
