package perf

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/softhca/softhca/verbs"
)

// server serves one client.
type server struct {
	plan    Plan
	own     *localSide
	ctl     *control
	request request
	end     done      // the client's second message
	reply   *reply    // receives it
	told    bool      // the client knows the error of this side
	sink    *sink     // if the client sends
	pong    *pingpong // if messages go back and forth
	pongs   uint64    // messages sent back
	before  Report
	watch   *watch // for migrations
}

// Serve serves the client at the other end of conn, which must measure op, until the
// client has finished or ctx ends. It also sends an error to the client. While the
// client measures, Serve polls its completion queue for operations with completions
// at the server, and sleeps for the others. It closes conn.
func Serve(ctx context.Context, dev *verbs.Context, conn net.Conn, op Op) error {
	release := closeWith(ctx, conn)
	defer release()
	s := &server{ctl: newControl(conn)}
	err := s.accept(dev, op)
	if err == nil {
		err = s.serve()
	}
	if err != nil && !errors.Is(err, ErrPeerFailed) {
		s.tell(err)
	}
	if err != nil && ctx.Err() != nil && !errors.Is(err, ErrPeerFailed) { // the end of ctx closed the connection, and is the cause
		err = ctx.Err()
	}
	s.watch.close()
	if s.own != nil {
		err = errors.Join(err, s.own.Close())
	}
	return err
}

// accept takes a request and offers to serve it.
func (s *server) accept(dev *verbs.Context, op Op) error {
	if err := s.ctl.receive(&s.request, replyDue); err != nil {
		return fmt.Errorf("receive the request: %w", err)
	}
	p, err := s.request.plan()
	if err != nil {
		return fmt.Errorf("request of the client: %w", err)
	}
	if p.Op != op {
		return fmt.Errorf("the client measures %v, this server serves %v", p.Op, op)
	}
	port, err := dev.QueryPort()
	if err != nil {
		return err
	}
	mtu := min(p.MTU, port.ActiveMTU)
	s.plan = p
	if s.own, err = newLocalSide(dev, p, true, isIPv4(s.ctl.conn)); err != nil {
		return err
	}
	s.watch = newWatch(s.own)
	if err := s.own.connect(&s.request.side, mtu); err != nil {
		return err
	}
	if err := s.own.bind(); err != nil {
		return err
	}
	if err := s.prepare(); err != nil {
		return err
	}
	o := offer{MTU: mtu.Bytes(), side: s.own.side()}
	if err := s.ctl.send(&o); err != nil {
		return fmt.Errorf("send the offer: %w", err)
	}
	return nil
}

// prepare prepares the server for the client's first packet.
func (s *server) prepare() (err error) {
	info := s.plan.Op.info()
	switch {
	case s.plan.Op == Read:
		for i := range s.plan.QPs {
			newPattern(s.request.Pattern, i).fill(s.own.out(i))
		}
	case s.plan.echoed():
		s.pong, err = newPingpong(s.own, &s.request.side)
	case info.receives:
		s.sink, err = newSink(s.own)
	}
	if err == nil {
		s.before, err = s.own.count(Report{})
	}
	return err
}

// serve does the server's part until the client has finished, checks the data, and
// answers.
func (s *server) serve() error {
	s.reply = s.ctl.expect(&s.end)
	err := s.work()
	var told error
	if err != nil {
		// The same failure has most likely ended the client too, unless it waits for a
		// message of this side.
		s.tell(err)
		told = s.ctl.finish(s.reply, failureGrace)
	} else {
		told = <-s.reply.outcome
	}
	switch {
	case told == nil && s.end.Failed != "":
		return s.clientFailed(err)
	case err == nil && told != nil:
		s.told = s.told || errors.As(told, new(*peerError)) // the client has ended
		err = fmt.Errorf("receive the result: %w", told)
	}
	if err != nil {
		return err
	}
	if err := s.quiet(); err != nil {
		return err
	}
	r := s.report() // after it, data that arrived before may be read
	if err := s.check(); err != nil {
		return err
	}
	if err := s.ctl.send(&verdict{Report: r}); err != nil {
		return fmt.Errorf("send the verdict: %w", err)
	}
	return nil
}

// failureGrace is the time that a failed server waits for the client's report of the same
// failure.
const failureGrace = 2 * time.Second

// clientFailed sends this side's report to a client that failed, and returns the error of
// this side. err is an earlier error of this side, if any, which the client knows
// already.
func (s *server) clientFailed(err error) error {
	failed := fmt.Errorf("%w: %q", ErrPeerFailed, s.end.Failed)
	if err != nil {
		return errors.Join(failed, err)
	}
	if err := s.ctl.send(&verdict{Report: s.report()}); err != nil {
		return errors.Join(failed, fmt.Errorf("send the report: %w", err))
	}
	return failed
}

// tell sends the failure of this side to the client once.
func (s *server) tell(err error) {
	if !s.told {
		s.told = true
		s.ctl.refuse(err, s.report())
	}
}

// report returns the report of this side, or nil if it is not available.
func (s *server) report() *Report {
	if s.own == nil {
		return nil
	}
	r, err := s.own.count(s.before)
	if err != nil {
		return nil
	}
	r.Migrations = s.watch.count()
	if s.sink != nil {
		r.Messages = s.sink.messages()
	}
	return &r
}

// work does the server's part of the measurement until its end.
func (s *server) work() error {
	switch {
	case s.pong != nil:
		for {
			ok, err := s.pong.await(s.pongs+1, 0, s.reply.over.Load)
			if err != nil || !ok {
				return err
			}
			s.pongs++
			if err := s.pong.send(s.pongs); err != nil {
				return err
			}
		}
	case s.sink != nil:
		return s.sink.run(s.reply.over.Load)
	default:
		return nil // the adapter does all the work
	}
}

// wrong returns the error for a wrong last message of a queue pair.
func (s *server) wrong(i int, why error) error {
	if s.plan.service().reliable {
		return fmt.Errorf("the last message of queue pair %d arrived wrong: %w", i, why)
	}
	return fmt.Errorf("the last message of queue pair %d was sent %d times and never arrived whole: %w", i, tailCopies, why)
}

// place returns the index of this side's buffer that contains the last message of queue pair i.
func (s *server) place(i int) int {
	if s.sink != nil && s.plan.Op == Send {
		return s.sink.lanes[i].last
	}
	return i
}

// check checks the data of the client's messages in memory.
func (s *server) check() error {
	if len(s.end.Messages) != s.plan.QPs {
		return fmt.Errorf("%w: counts of %d queue pairs, not %d", errLine, len(s.end.Messages), s.plan.QPs)
	}
	if s.pong != nil {
		if n := s.end.Messages[0]; n != s.pongs {
			return fmt.Errorf("the client counts %d round trips, the server %d", n, s.pongs)
		}
		return nil
	}
	if s.sink != nil {
		if err := s.sink.settle(s.end.Messages, s.plan.service().reliable); err != nil {
			return err
		}
	}
	for i, n := range s.end.Messages {
		switch {
		case s.plan.Op == Read: // the client checks
		case s.plan.Op == Flush || s.plan.Op == Bind: // there is nothing to check
		case s.plan.Op.info().atomic:
			if v := binary.NativeEndian.Uint64(s.own.in(i)); v != n {
				return fmt.Errorf("the word of queue pair %d is %d after %d atomics", i, v, n)
			}
		default:
			if err := newPattern(s.end.Pattern, i).check(s.own.in(s.place(i))); err != nil {
				return s.wrong(i, err)
			}
		}
	}
	return nil
}
