package cm

import (
	"strings"
	"testing"

	"github.com/softhca/softhca/mad"
)

// TestC6_Counters: every count has one name, and each event counts under the
// right one.
func TestC6_Counters(t *testing.T) {
	var c Counters
	n := uint64(1)
	next := func(v *uint64) { *v, n = n, 2*n }
	for i := range numKinds {
		for _, counts := range []*[numKinds]uint64{&c.Sent, &c.Retries, &c.Received} {
			next(&counts[i])
		}
	}
	for _, v := range []*uint64{&c.Unmatched, &c.Foreign, &c.Invalid, &c.Refused, &c.GivenUp, &c.Unsent} {
		next(v)
	}
	next(&c.Duplicates[MsgMRAREQ])
	next(&c.Duplicates[MsgMRAOther])
	next(&c.Unexpected[MsgLAP])
	next(&c.Unexpected[MsgREJStale])
	got, sum := map[string]uint64{}, uint64(0)
	c.Each(func(name string, v uint64) {
		if _, twice := got[name]; twice || name != strings.ToLower(name) {
			t.Errorf("%q is the name of two counters, or not like the others", name)
		}
		got[name] = v
		sum += v
	})
	if sum != n-1 {
		t.Errorf("the counts add up to %#x, want %#x: some are left out, or told twice", sum, n-1)
	}
	for name, want := range map[string]uint64{
		"cm_tx_msgs_req": c.Sent[0], "cm_tx_retries_dreq": c.Retries[mad.AttrDREQ-mad.AttrREQ],
		"cm_rx_msgs_sidr_rep":  c.Received[mad.AttrSIDRREP-mad.AttrREQ],
		"cm_rx_duplicates_mra": c.Duplicates[MsgMRAREQ] + c.Duplicates[MsgMRAOther],
		"cm_unexpected":        c.Unexpected[MsgLAP] + c.Unexpected[MsgREJStale],
		"cm_given_up":          c.GivenUp,
	} {
		if got[name] != want {
			t.Errorf("%s is %#x, want %#x", name, got[name], want)
		}
	}
}

// TestC6_RepetitionsAreCountedAsTheirMessage: a message that a connection gets
// again counts as a repetition of that message.
func TestC6_RepetitionsAreCountedAsTheirMessage(t *testing.T) {
	for on := firstMsg; on < firstTimer; on++ {
		r := newRig(t)
		before := r.m.Counters().Received
		tell(r, &Conn{localID: 0x5555_5555}, on)
		after := r.m.Counters().Received
		for i := range after {
			if (after[i] != before[i]) != (mad.AttrREQ+mad.AttrID(i) == messageOf[on]) {
				t.Errorf("%v is received as %s, and is said to be %v", on, KindName(i), messageOf[on])
			}
		}
	}
}
