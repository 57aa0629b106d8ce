package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/interop/ends"
	"github.com/softhca/softhca/roce"
	"github.com/softhca/softhca/verbs"
)

// Forgery is a NAK that the peer did not send: a rule at our port turns an answer of the
// peer into NAK remote access error. Our requester challenges the NAK, the peer answers as a
// live one, and the request succeeds.
type Forgery struct {
	Name, Rules string
	play        func(t *steps)
}

// turned returns the rule that turns the first packet of kind op, whose AETH has the syndrome
// s, into the NAK.
func turned(op string, s roce.Syndrome) string {
	return fmt.Sprintf("corrupt byte=12 xor=%d reseal dir=in op=%s nth=1", s^roce.NAKRemoteAccess, op)
}

const (
	unlimited = roce.Syndrome(31)        // of the ACK of a responder that tells no credits
	notReady  = roce.Syndrome(1<<5 | 12) // of an RNR NAK with the min RNR timer of ends.Defaults
	refuted   = "challenges_refuted"     // our counter of challenges that the peer has answered
)

// Forgeries lists the cases. The last request that the peer has executed decides what the peer
// acknowledges when it is asked again: Linux rxe does not count READs.
func Forgeries() []Forgery {
	return []Forgery{
		{"ACK", turned("ACK", unlimited), func(t *steps) {
			t.write(8)
			t.sent(1)
		}},
		{"RNR NAK after a WRITE", turned("RNR_NAK", notReady), func(t *steps) { t.afterForgery(ib.WRRDMAWrite) }},
		{"RNR NAK after a READ", turned("RNR_NAK", notReady), func(t *steps) { t.afterForgery(ib.WRRDMARead) }},
	}
}

// Forged plays a forgery with our adapter as the requester.
func Forged(ctx context.Context, p Pair, f Forgery) Result {
	pl := p.plan(ib.RC)
	pl.named(f.Name)
	return p.play(ctx, "RC forged NAK, "+f.Name, pl, func(t *steps) {
		f.play(t)
		t.untilRefuted()
	})
}

// afterForgery carries out a request of kind op of three packets, and then sends a message for
// which the peer has no receive until the NAK in place of its RNR NAK was refuted.
func (t *steps) afterForgery(op ib.WROpcode) {
	t.post(ends.Send{
		Opcode: op, Flags: ib.SendSignaled, SGList: part(t.local, 0, 3*uint32(t.MTU.Bytes())), RemoteAddr: t.far.Addr(), RKey: t.far.RKey(),
	})
	t.sent(1)
	t.post(ends.Send{Opcode: ib.WRSend, Flags: ib.SendSignaled, SGList: part(t.local, 0, 8)})
	t.untilRefuted()
	t.receive(ends.Recv{SGList: part(t.far, 0, 8)})
	t.sent(1)
	t.got(1)
}

// untilRefuted waits until our requester has counted a refuted challenge.
func (t *steps) untilRefuted() {
	t.until("an answer that refutes the NAK", func() (bool, error) {
		own, ok := t.Requester.(*ends.Ours)
		if !ok {
			return false, errors.New("the requester is not our adapter")
		}
		all, err := own.Context().Counters()
		return slices.ContainsFunc(all, func(c verbs.Counter) bool { return c.Name == refuted && c.Value > 0 }), err
	})
}
