package demo

import (
	"bytes"
	"context"
	"errors"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// unready is the code of the time that A waits when B has no receive: long enough for
// B's program to post one, on a busy host too, and for the reader to notice.
const unready = 31 // 491.52 ms

// link is a connection of reliable datagrams: the queue pair and the ID of either
// side.
type link struct {
	a, b *rdmacm.ID
	peer rdmacm.ConnParam // A's parameters for B's queue pair
}

// RunDatagrams shows reliable datagrams: two pairs of queue pairs share one channel; one
// pair is not ready, and the other continues. Otherwise it is like Run.
func RunDatagrams(ctx context.Context, o Options) error {
	s := &stage{printer: newPrinter(&o), space: rdmacm.RD}
	var first, second link
	return s.play(ctx, &o, "softhca: two queue pairs share one channel of reliable datagrams", "softhca states --type eec, softhca cm-states --state channel_up",
		s.adapters,
		func(ctx context.Context) (err error) {
			first, second, err = s.links(ctx)
			return err
		},
		func(ctx context.Context) error { return s.goOn(ctx, first, second) },
		func(ctx context.Context) error { return s.partOneByOne(ctx, first, second) })
}

// links connects two pairs of queue pairs over one channel.
func (s *stage) links(ctx context.Context) (first, second link, err error) {
	first, err = s.link(ctx, "Connect: a channel", "A reliable datagram channel makes messages reliable. Each adapter has one end of the channel, an EE "+
		"context, with the path, the PSNs and the retries of an RC queue pair. REQ and REP contain the numbers of the EE contexts and "+
		"the queue pairs, and their Q_Keys, and the connection managers move all four to RTS.")
	if err != nil {
		return first, second, err
	}
	s.a.over = first.a.Channel()
	second, err = s.link(ctx, "Connect: another pair of queue pairs", "The second connection joins the channel: REQ says that it exists. Only the two queue pairs "+
		"are moved.")
	if err != nil {
		return first, second, err
	}
	s.check(second.a.Channel() == first.a.Channel() && second.b.Channel() == first.b.Channel() && first.a.Channel().Users() == 2,
		"two connections, one channel: EE context %v of A, %v of B", first.a.Channel().EEC().EECN(), first.b.Channel().EEC().EECN())
	return first, second, nil
}

// link is the scene of one connection.
func (s *stage) link(ctx context.Context, title, text string) (link, error) {
	s.title(title)
	s.text(0, "%s", text)
	err := s.join(ctx)
	s.draw()
	s.told()
	l := link{s.a.id, s.b.id, s.a.peer}
	if err == nil {
		err = l.b.QP().Modify(&verbs.QPAttr{State: ib.RTS, MinRNRTimer: unready}, ib.AttrState|ib.AttrMinRNRTimer)
	}
	return l, err
}

// send makes A send size bytes at an offset to B's queue pair of a connection.
func (l link) send(s *stage, id, off uint64, size uint32) error {
	return l.a.QP().PostSend(verbs.SendWR{
		WRID: id, Opcode: ib.WRSend, Flags: ib.SendSignaled, SGList: []verbs.SGE{s.a.mr.SGE(off, size)},
		EEC: l.a.Channel().EEC(), RemoteQPN: l.peer.QPN, RemoteQKey: l.peer.QKey,
	})
}

// goOn is the scene in which one queue pair waits and the other continues.
func (s *stage) goOn(ctx context.Context, first, second link) error {
	const size = 1500
	s.title("One waits, the other continues")
	s.text(0, "A sends %d bytes to B's first queue pair, which has no receive, and the same to the second, which has one. The first message "+
		"is suspended for %v; after a RESYNC B continues with the next PSN, and A sends the second message. Then B posts a "+
		"receive, and A sends the first message again from its beginning.", size, ib.RNRTimer(unready))
	if err := second.b.QP().PostRecv(verbs.RecvWR{WRID: 2, SGList: []verbs.SGE{s.b.mr.SGE(landing, size)}}); err != nil {
		return err
	}
	if err := errors.Join(first.send(s, 1, source, size), second.send(s, 2, source+size, size)); err != nil {
		return err
	}
	early, err := s.a.next(ctx)
	if err != nil {
		return err
	}
	if err := first.b.QP().PostRecv(verbs.RecvWR{WRID: 1, SGList: []verbs.SGE{s.b.mr.SGE(target, size)}}); err != nil {
		return err
	}
	late, err := s.a.next(ctx)
	if err != nil {
		return err
	}
	s.draw()
	s.check(early.WRID == 2 && early.Status == ib.WCSuccess, "the second SEND completes first: %v, while the other one waits", early.Status)
	s.check(late.WRID == 1 && late.Status == ib.WCSuccess, "then the first one: %v", late.Status)
	for _, want := range [...]struct {
		id  uint64
		at  int
		off int
	}{{2, landing, source + size}, {1, target, source}} {
		wc, err := s.b.next(ctx)
		if err != nil {
			return err
		}
		s.check(wc.WRID == want.id && wc.EEC == first.b.Channel().EEC().EECN() && bytes.Equal(s.a.part(want.off, size), s.b.part(want.at, size)),
			"B has the message of queue pair %v, over EE context %v", wc.SrcQP, wc.EEC)
	}
	return nil
}

// partOneByOne is the scene in which the connections end, one after the other.
func (s *stage) partOneByOne(ctx context.Context, first, second link) error {
	s.title("Disconnect: the channel ends with the last connection")
	s.text(0, "The first connection ends, and its queue pairs go to ERR. The channel stays up for the second connection, and ends with it.")
	k := first.a.Channel()
	for i, l := range [...]link{first, second} {
		s.a.id, s.b.id = l.a, l.b
		err := s.hangUp(ctx)
		s.draw()
		if err != nil {
			return err
		}
		want := [...]ib.QPState{ib.RTS, ib.ERR}[i]
		s.check(k.EEC().State() == want && k.Users() == 1-i, "A's EE context is in %v; connections over it: %d", k.EEC().State(), k.Users())
	}
	for _, l := range [...]link{first, second} {
		s.a.id, s.b.id = l.a, l.b
		if err := s.leave(); err != nil {
			return err
		}
	}
	return nil
}
