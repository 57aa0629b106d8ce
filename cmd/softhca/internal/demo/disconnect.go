package demo

import (
	"context"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/rdmacm"
)

// hangUp has A end the connection, and B agree.
func (s *stage) hangUp(ctx context.Context) error {
	if err := s.a.id.Disconnect(); err != nil {
		return err
	}
	if _, err := s.b.wait(ctx, rdmacm.EventDisconnected); err != nil {
		return err
	}
	if err := s.b.id.Disconnect(); err != nil {
		return err
	}
	_, err := s.a.wait(ctx, rdmacm.EventDisconnected)
	return err
}

// disconnect is the scene in which the connection is torn down.
func (s *stage) disconnect(ctx context.Context) error {
	s.title("Disconnect: two messages")
	s.text(0, "A's program disconnects, B's is told and does so too. Their CMs exchange DREQ and DREP, both queue pairs go to ERR, "+
		"and both connections rest in TIMEWAIT until no packet of theirs can be under way any more.")
	s.a.told, s.b.told = nil, nil
	s.aTrace.resume()
	s.bTrace.resume()
	err := s.hangUp(ctx)
	parted := time.Now()
	s.draw()
	for _, n := range [...]*node{s.a, s.b} {
		if err == nil {
			_, err = n.wait(ctx, rdmacm.EventTimewaitExit)
		}
	}
	if err != nil {
		s.end()
		return err
	}
	s.rung(dim, center("TIMEWAIT"), "for "+time.Since(parted).Round(time.Millisecond).String())
	s.end()
	s.told()
	s.check(s.a.qp.State() == ib.ERR && s.b.qp.State() == ib.ERR, "both queue pairs are in ERR")
	return s.leave()
}

// leave destroys what the connection had.
func (s *stage) leave() error {
	for _, n := range [...]*node{s.a, s.b} {
		if err := n.id.DestroyQP(); err != nil {
			return err
		}
		if err := n.id.Destroy(); err != nil {
			return err
		}
	}
	return nil
}

// draw draws what both sides recorded since the last time, and returns how
// many moves of queue pairs that was.
func (s *stage) draw() (moves int) {
	steps := interleave(s.aTrace.take(), s.bTrace.take())
	for i := range steps {
		if steps[i].Kind == trace.State {
			moves++
		}
	}
	s.ladder(s.a, s.b, steps)
	return moves
}
