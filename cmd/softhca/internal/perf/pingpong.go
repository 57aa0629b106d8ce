package perf

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"time"
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// pingpong is one side of messages that go back and forth. Each message carries its
// number in its last bytes. A side detects a WRITE by polling the memory, as such
// programs do with adapters, and other messages by their completion, for which it polls
// or, with Plan.Events, sleeps.
type pingpong struct {
	own     *localSide
	qp      *verbs.QP
	cq      *verbs.CQ
	op      Op
	out     []byte
	word    *uint64 // last eight bytes of the received message
	mask    uint64  // the part of word that a message covers
	wr      verbs.SendWR
	recv    ib.RecvWR
	arrived uint64 // messages that completed a receive
	pending bool   // the last message sent has not completed
	wcs     [8]ib.WC
}

// newPingpong returns a side with its receives posted.
func newPingpong(own *localSide, peer *side) (*pingpong, error) {
	in := own.in(0)
	p := &pingpong{
		own: own, qp: own.sender(), cq: own.cq, op: own.plan.Op, out: own.out(0), mask: ^uint64(0),
		// A message ends at a multiple of 64 bytes: the word is aligned, and is within the
		// buffer also if the message is shorter.
		word: (*uint64)(unsafe.Add(unsafe.Pointer(&in[0]), len(in)-8)),
		wr:   own.begin(0, peer),
	}
	p.wr.Flags = ib.SendSignaled
	if n := len(in); n < 8 {
		p.mask = 1<<(8*n) - 1
	}
	if own.inlineSize() > 0 {
		p.wr.Flags |= ib.SendInline
		p.wr.InlineData, p.wr.SGList = p.out, nil
	}
	if p.op == Send {
		p.recv.SGList = own.inSGE(0)
	}
	if !p.op.info().receives {
		return p, nil
	}
	return p, own.postRecv(0, p.recv, p.recv)
}

// send sends message number n.
func (p *pingpong) send(n uint64) error {
	var word [8]byte
	binary.BigEndian.PutUint64(word[:], n)
	copy(p.out[max(0, len(p.out)-8):], word[max(0, 8-len(p.out)):])
	p.wr.ImmData = uint32(n)
	p.pending = true
	return p.qp.PostSend(p.wr)
}

// looks is the number of polls between checks whether to stop.
const looks = 1 << 12

// answerDue is the time that a client waits for an answer with an unreliable service.
const answerDue = time.Second

// stopCheck is the longest sleep between checks whether to stop.
const stopCheck = 20 * time.Millisecond

// sleep sleeps until a completion, with Plan.Events, and reports whether it is time to check
// whether to stop. The next poll returns the error of a sleep.
func (p *pingpong) sleep() bool {
	if !p.own.plan.Events {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopCheck)
	defer cancel()
	return p.cq.Wait(ctx) != nil
}

// await waits until message number n has arrived and the last message sent has
// completed. It returns false if stop returns true. due, unless 0, limits the wait.
func (p *pingpong) await(n uint64, due time.Duration, stop func() bool) (bool, error) {
	var begin time.Time
	for i := 1; ; i++ {
		if err := p.poll(); err != nil {
			return false, err
		}
		if !p.pending && p.here(n) {
			return true, p.check(n)
		}
		if p.sleep() || i%looks == 0 {
			if err := p.own.lost(); err != nil || stop() {
				return false, err
			}
			switch now := time.Now(); {
			case begin.IsZero():
				begin = now
			case due > 0 && now.Sub(begin) > due:
				return false, fmt.Errorf("no answer to message %d within %v: it is lost, and %v repeats nothing", n, due, p.qp.Type())
			}
		}
	}
}

// poll polls completions, which also runs the adapter.
func (p *pingpong) poll() error {
	n, err := p.cq.Poll(p.wcs[:])
	if err != nil {
		return err
	}
	for i := range n {
		switch wc := &p.wcs[i]; {
		case wc.Status != ib.WCSuccess:
			return failure(wc)
		case wc.Opcode < ib.WCRecv:
			p.pending = false
		default:
			p.arrived++
			if err := p.own.postRecv(0, p.recv); err != nil {
				return err
			}
		}
	}
	return nil
}

// here reports whether message number n has arrived.
func (p *pingpong) here(n uint64) bool {
	if p.op.info().receives {
		return p.arrived == n
	}
	return p.last() == n&p.mask
}

// check checks the number that a message carries.
func (p *pingpong) check(n uint64) error {
	if got := p.last(); got != n&p.mask {
		return fmt.Errorf("message %d carries the number %d", n, got)
	}
	return nil
}

func (p *pingpong) last() uint64 {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], peek(p.word))
	return binary.BigEndian.Uint64(b[:]) & p.mask
}

// peek reads memory that the peer may be writing: RDMA has no other sign that
// a WRITE has arrived. The adapter's copy is not synchronized with it, so the
// race detector must not look; not being inlined, it reads anew each time,
// and eight aligned bytes in one piece.
//
//go:norace
//go:noinline
func peek(word *uint64) uint64 { return *word }

// pingpong measures round trips.
func (c *client) pingpong(ctx context.Context) (*done, error) {
	p, err := newPingpong(c.own, &c.peer)
	if err != nil {
		return nil, err
	}
	m := c.meter
	due := answerDue
	if c.plan.service().reliable {
		due = 0 // the answer arrives, or a completion fails
	}
	off := func() bool { return ctx.Err() != nil || c.reply.over.Load() }
	m.begin(c.plan.Duration)
	for n := uint64(1); ; n++ {
		if more, err := m.running(ctx); err != nil || !more {
			m.stop()
			return &done{Messages: []uint64{n - 1}}, err
		}
		start := time.Now()
		if err := p.send(n); err != nil {
			return nil, err
		}
		switch ok, err := p.await(n, due, off); {
		case err != nil:
			return nil, err
		case !ok && ctx.Err() != nil:
			return nil, ctx.Err()
		case !ok:
			// A failure of the server may have failed a request here, which says more.
			return nil, cmp.Or(p.poll(), errServerEnded)
		}
		c.trips.add(time.Since(start))
		m.messages++
		m.complete()
	}
}
