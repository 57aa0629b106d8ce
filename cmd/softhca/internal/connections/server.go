package connections

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// server accepts every connection, and ends it when the client ends it. One goroutine
// uses it.
type server struct {
	*adapter.Resources
	st    *adapter.Adapter
	ch    *rdmacm.EventChannel
	pd    *verbs.PD
	queue *adapter.Queue // of all queue pairs
	err   io.Writer      // failures of single connections
	wcs   [16]verbs.WC

	// With messages, as the cycles send them:
	mr   *verbs.MR // a slot for each connection
	free []int     // free slots
	got  int       // right messages received
	bad  error     // error of a wrong message
}

// peer is the server's state of a connection.
type peer struct {
	slot int // slot of its message
}

// newServer returns a server that listens. Closing the adapter destroys its objects. slots
// is the maximum number of connections that may send a message at a time; with 0 none may.
func newServer(st *adapter.Adapter, errs io.Writer, slots int) (*server, error) {
	s := &server{Resources: adapter.NewResources(st.Device), st: st, ch: st.NewEventChannel(), err: errs}
	s.pd = s.NewPD()
	s.queue = s.NewQueue(2*slots + 1)
	if slots > 0 {
		s.mr = s.NewMR(s.pd, slots*messageLen, ib.AccessLocalWrite)
	}
	for i := range slots {
		s.free = append(s.free, i)
	}
	if err := s.Err(); err != nil {
		return s, err
	}
	listener, err := st.Bind(s.ch, rdmacm.TCP)
	if err != nil {
		return s, err
	}
	return s, listener.Listen(0)
}

// run serves until ctx ends, and returns its error.
func (s *server) run(ctx context.Context) error {
	for {
		n, e, err := s.queue.WaitEither(ctx, s.ch, s.wcs[:])
		s.receive(n)
		if err != nil {
			return err
		}
		if e == nil {
			continue
		}
		if err := s.take(e); err != nil {
			return err
		}
	}
}

// turn handles all completions and events, and processes the adapter's packets.
func (s *server) turn() error {
	n, err := s.queue.Poll(s.wcs[:])
	if err != nil {
		return err
	}
	s.receive(n)
	for e, ok := s.ch.TryGet(); ok; e, ok = s.ch.TryGet() {
		if err := s.take(e); err != nil {
			return err
		}
	}
	return nil
}

// take handles an event.
func (s *server) take(e *rdmacm.Event) error {
	// Take messages that arrived before the event: they are lost with the queue pair.
	for {
		n, err := s.queue.Poll(s.wcs[:])
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		s.receive(n)
	}
	e.Ack() // e remains valid
	id := e.ID
	switch e.Type {
	case rdmacm.EventConnectRequest:
		if err := s.accept(id); err != nil {
			_, _ = fmt.Fprintf(s.err, "a connection failed: %v\n", err) // a write error does not matter
		}
		return nil
	case rdmacm.EventEstablished, rdmacm.EventTimewaitExit:
		return nil
	case rdmacm.EventDeviceRemoval:
		return adapter.NewFailure(e)
	default: // the connection ended in any way
		_ = id.Disconnect() // fails after some ends, which need no answer
		return s.end(id)
	}
}

// accept accepts a connection, or rejects it.
func (s *server) accept(id *rdmacm.ID) error {
	p := &peer{slot: -1}
	id.Context = p
	err := id.CreateQP(s.pd, qpAttr(s.queue.CQ))
	if err == nil && s.mr != nil {
		err = s.post(id, p)
	}
	if err == nil {
		err = id.Accept(nil)
	}
	if err != nil {
		_ = id.Reject(nil) // unless Accept has done so
		return errors.Join(err, s.end(id))
	}
	return nil
}

// errNoSlot means that there are more connections than slots for messages.
var errNoSlot = errors.New("too many connections: no buffer is free for a message")

// post posts the receive of a connection's message.
func (s *server) post(id *rdmacm.ID, p *peer) error {
	last := len(s.free) - 1
	if last < 0 {
		return errNoSlot
	}
	p.slot, s.free = s.free[last], s.free[:last]
	return id.QP().PostRecv(verbs.RecvWR{
		WRID: uint64(p.slot), SGList: []verbs.SGE{s.mr.SGE(uint64(p.slot*messageLen), messageLen)},
	})
}

// receive checks n messages.
func (s *server) receive(n int) {
	for i := range s.wcs[:n] {
		switch wc := &s.wcs[i]; {
		case wc.Status == ib.WCWRFlushErr: // the connection has ended
		case wc.Status != ib.WCSuccess:
			s.bad = fmt.Errorf("receive a message: %v", wc.Status)
		case !rightMessage(s.mr.Bytes()[wc.WRID*messageLen:][:wc.ByteLen]):
			s.bad = errors.New("a message arrived with wrong data")
		default:
			s.got++
		}
	}
}

// end destroys a connection.
func (s *server) end(id *rdmacm.ID) error {
	if p, ok := id.Context.(*peer); ok && p.slot >= 0 {
		s.free = append(s.free, p.slot)
		p.slot = -1
	}
	var err error
	if id.QP() != nil {
		err = id.DestroyQP()
	}
	return errors.Join(err, id.Destroy())
}

// messageLen is the size of a cycle's message, in bytes.
const messageLen = 64

// fillMessage writes the message of a cycle: its number, and bytes computed from the
// number.
func fillMessage(b []byte, n uint64) {
	binary.BigEndian.PutUint64(b, n)
	for i := range b[8:] {
		b[8+i] = byte(n>>(8*(i&7))) ^ byte(i)
	}
}

// rightMessage reports whether a message has the right bytes.
func rightMessage(b []byte) bool {
	if len(b) != messageLen {
		return false
	}
	var want [messageLen]byte
	fillMessage(want[:], binary.BigEndian.Uint64(b))
	return want == [messageLen]byte(b)
}
