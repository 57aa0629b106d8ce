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
	play        func(ctx context.Context, s *stand, j *judge) error
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
		{"ACK", turned("ACK", unlimited), func(ctx context.Context, s *stand, j *judge) error {
			if _, err := s.write(ctx, 8); err != nil {
				return err
			}
			_, err := succeeded(ctx, j, s.Requester, 1)
			return err
		}},
		{"RNR NAK after a WRITE", turned("RNR_NAK", notReady), func(ctx context.Context, s *stand, j *judge) error {
			return s.afterForgery(ctx, j, ib.WRRDMAWrite)
		}},
		{"RNR NAK after a READ", turned("RNR_NAK", notReady), func(ctx context.Context, s *stand, j *judge) error {
			return s.afterForgery(ctx, j, ib.WRRDMARead)
		}},
	}
}

// Forged plays a forgery with our adapter as the requester.
func Forged(ctx context.Context, p Pair, f Forgery) Result {
	j := &judge{}
	pl := p.plan(ib.RC)
	pl.named(f.Name)
	s, _, err := p.build(ctx, pl)
	if err == nil {
		err = f.play(ctx, s, j)
	}
	if err == nil {
		err = s.untilRefuted(ctx)
	}
	return p.evidence(j.result("RC forged NAK, "+f.Name, err))
}

// afterForgery carries out a request of kind op of three packets, and then sends a message for
// which the peer has no receive until the NAK in place of its RNR NAK was refuted.
func (s *stand) afterForgery(ctx context.Context, j *judge, op ib.WROpcode) error {
	first := ends.Send{
		Opcode: op, Flags: ib.SendSignaled, SGList: []ends.SGE{{Memory: s.local, Length: 3 * uint32(s.MTU.Bytes())}},
		RemoteAddr: s.far.Addr(), RKey: s.far.RKey(),
	}
	if err := s.req.PostSend(ctx, first); err != nil {
		return err
	}
	if _, err := succeeded(ctx, j, s.Requester, 1); err != nil {
		return err
	}
	message := ends.Send{Opcode: ib.WRSend, Flags: ib.SendSignaled, SGList: []ends.SGE{{Memory: s.local, Length: 8}}}
	if err := s.req.PostSend(ctx, message); err != nil {
		return err
	}
	if err := s.untilRefuted(ctx); err != nil {
		return err
	}
	if err := s.resp.PostRecv(ctx, ends.Recv{SGList: []ends.SGE{{Memory: s.far, Length: 8}}}); err != nil {
		return err
	}
	if _, err := succeeded(ctx, j, s.Requester, 1); err != nil {
		return err
	}
	_, err := succeeded(ctx, j, s.Responder, 1)
	return err
}

// untilRefuted waits until our requester has counted a refuted challenge.
func (s *stand) untilRefuted(ctx context.Context) error {
	own, ok := s.Requester.(*ends.Ours)
	if !ok {
		return errors.New("the requester is not our adapter")
	}
	return until(ctx, "an answer that refutes the NAK", func() (bool, error) {
		all, err := own.Context().Counters()
		return slices.ContainsFunc(all, func(c verbs.Counter) bool { return c.Name == refuted && c.Value > 0 }), err
	})
}
